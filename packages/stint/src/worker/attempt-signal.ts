import { longestTimerMs } from "../runtime/sleep.ts";

/** Why and how the handler of one attempt is asked to stop: its AbortSignal, the reason, and the timer of its timeout. */
export class AttemptSignal {
  /** Created on first use: most handlers never read their signal, and it is the most expensive part of a short attempt. */
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #onTimeout: (() => void) | undefined;
  #extendedMs: number | undefined;

  /** Why the handler was asked to stop, if it was. */
  get reason(): Error | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Ask the handler to stop. The first reason stays; false if there was one already. */
  abort(reason: Error): boolean {
    if (this.#reason !== undefined) return false;
    this.#reason = reason;
    this.#controller?.abort(reason);
    return true;
  }

  startTimer(ms: number, onTimeout: () => void): void {
    this.#onTimeout = onTimeout;
    this.#timer = setTimeout(onTimeout, ms);
  }

  /** The new timeout, counted from the start of the attempt, if it was extended. */
  get extendedMs(): number | undefined {
    return this.#extendedMs;
  }

  /** Time out after `totalMs`, of which `ranMs` have passed. */
  extend(totalMs: number, ranMs: number): void {
    this.#extendedMs = totalMs;
    // Without one, it is started with the new timeout, or the timeout is longer than a timer counts.
    if (this.#onTimeout === undefined) return;
    this.clearTimer();
    if (totalMs <= longestTimerMs) this.startTimer(totalMs - ranMs, this.#onTimeout);
  }

  clearTimer(): void {
    clearTimeout(this.#timer);
  }
}
