import { Wakeable } from "../runtime/sleep.ts";

/** A blocked main thread cannot call the password function. After this time the last password is used. */
const askWithinMs = 1_000;
const firstWithinMs = 5_000;

/** Passwords for the lease thread. It requests one by message at every connect, because only the main thread can call the function. */
export class LeasePassword {
  readonly #ask: () => void;
  #arrived = new Wakeable();
  #last: string | undefined;

  constructor(ask: () => void) {
    this.#ask = ask;
  }

  /** The main thread has responded; undefined if the function threw. */
  receive(password: string | undefined): void {
    this.#last = password ?? this.#last;
    this.#arrived.wake();
  }

  async get(): Promise<string> {
    // A new object: a late response to the last request must not be taken for this one.
    this.#arrived = new Wakeable();
    this.#ask();
    await this.#arrived.wait(this.#last === undefined ? firstWithinMs : askWithinMs);
    if (this.#last === undefined) throw new Error("the password function returned no password");
    return this.#last;
  }
}
