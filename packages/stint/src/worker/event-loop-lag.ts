const everyMs = 1_000;

/** A beat each second: for what is looked at now and then, and to see how late the event loop is. */
export class EventLoopLag {
  readonly #onBeat: () => void;
  #timer: NodeJS.Timeout | undefined;
  #expectedAt = 0;
  #lagMs = 0;

  constructor(onBeat: () => void) {
    this.#onBeat = onBeat;
  }

  start(): void {
    this.#expectedAt = performance.now() + everyMs;
    this.#timer = setInterval(() => this.#beat(), everyMs);
    // It must not be what keeps the process.
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** How late the event loop was at worst since this was last asked. */
  takeLagMs(): number {
    const lagMs = this.#lagMs;
    this.#lagMs = 0;
    return Math.round(lagMs);
  }

  #beat(): void {
    const now = performance.now();
    this.#lagMs = Math.max(this.#lagMs, now - this.#expectedAt);
    this.#expectedAt = now + everyMs;
    this.#onBeat();
  }
}
