import { InvalidOptionError } from "../errors.ts";
import { InFlight } from "../runtime/in-flight.ts";

export type CloseSteps = {
  /** Runs while calls are accepted. Undefined if there is nothing to wait for. */
  readonly whileOpen: () => Promise<unknown> | undefined;
  /** Runs once calls are refused. */
  readonly onClosed: () => Promise<unknown>;
  /** Runs once no call is in flight. */
  readonly onIdle: () => Promise<unknown>;
};

/** Whether a client is open, and the calls that closing waits for. */
export class Lifetime {
  readonly #calls = new InFlight();
  #closing: Promise<void> | undefined;
  #closed = false;

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** @throws {InvalidOptionError} The client was closed. */
  requireOpen(): void {
    if (this.#closed) throw closedError();
  }

  /** @throws {InvalidOptionError} The client was closed, or is being closed. */
  requireNotClosing(): void {
    if (this.isClosing) throw closedError();
  }

  /** Run a call. Closing waits for it. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    this.requireOpen();
    return await this.#calls.run(call);
  }

  /** Close once. Calling this again waits for the same close. */
  async close(steps: CloseSteps): Promise<void> {
    this.#closing ??= this.#close(steps);
    await this.#closing;
  }

  async #close({ whileOpen, onClosed, onIdle }: CloseSteps): Promise<void> {
    const first = whileOpen();
    // Without a wait the client is closed at once: the next call of its caller is refused.
    if (first !== undefined) await first;
    this.#closed = true;
    await onClosed();
    await this.#calls.idle();
    await onIdle();
  }
}

function closedError(): InvalidOptionError {
  return new InvalidOptionError("stint", "was closed. Make another client with createStint(…)");
}
