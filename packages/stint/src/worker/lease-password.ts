import { Wakeable } from "../runtime/sleep.ts";

/** A blocked main thread cannot call the password function. After this time the last password is used. */
const laterWithinMs = 1_000;
const firstWithinMs = 5_000;

/** Passwords for the lease thread. It requests one by message at every connect, because only the main thread can call the function. */
export class LeasePassword {
  readonly #request: () => void;
  #arrived = new Wakeable();
  #last: string | undefined;

  constructor(request: () => void) {
    this.#request = request;
  }

  /** The main thread has responded; undefined if the function threw. */
  receive(password: string | undefined): void {
    this.#last = password ?? this.#last;
    this.#arrived.wake();
  }

  async get(): Promise<string> {
    // A new object: a late response to the last request must not be taken for this one.
    this.#arrived = new Wakeable();
    this.#request();
    await this.#arrived.wait(this.#last === undefined ? firstWithinMs : laterWithinMs);
    if (this.#last === undefined) throw new Error("the password function returned no password");
    return this.#last;
  }
}
