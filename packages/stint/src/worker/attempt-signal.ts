/** Why and how the handler of one attempt is asked to stop: its AbortSignal, the reason, and the timer of its timeout. */
export class AttemptSignal {
  /** Created on first use: most handlers never read their signal, and it is the most expensive part of a short attempt. */
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

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
    this.#timer = setTimeout(onTimeout, ms);
  }

  clearTimer(): void {
    clearTimeout(this.#timer);
  }
}
