import { Wakeable } from "../runtime/sleep.ts";

/** While the main thread stands still in a handler it cannot be asked; the last password is then used after this time. */
const askWithinMs = 1_000;
const firstWithinMs = 5_000;

/** Passwords for the lease thread, which cannot call functions of the main thread: asked for by message at every connect. */
export class LeasePassword {
  readonly #ask: () => void;
  #arrived = new Wakeable();
  #last: string | undefined;

  constructor(ask: () => void) {
    this.#ask = ask;
  }

  /** The main thread has responded; with undefined if its function threw. */
  receive(password: string | undefined): void {
    this.#last = password ?? this.#last;
    this.#arrived.wake();
  }

  async get(): Promise<string> {
    // A new one: a response that came too late for the last connection must not be taken for this one's.
    this.#arrived = new Wakeable();
    this.#ask();
    await this.#arrived.wait(this.#last === undefined ? firstWithinMs : askWithinMs);
    if (this.#last === undefined) throw new Error("the password function gave no password");
    return this.#last;
  }
}
