const everyMs = 1_000;

/** Ticks once a second, and measures how late the event loop is. */
export class EventLoopLag {
  readonly #onTick: () => void;
  #timer: NodeJS.Timeout | undefined;
  #expectedAt = 0;
  #lagMs = 0;
  #used = performance.eventLoopUtilization();
  #busyShare = 0;

  constructor(onTick: () => void) {
    this.#onTick = onTick;
  }

  start(): void {
    this.#expectedAt = performance.now() + everyMs;
    this.#timer = setInterval(() => this.#tick(), everyMs);
    // The timer must not keep the process alive.
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The largest delay of the event loop since the last call. */
  takeLagMs(): number {
    const lagMs = this.#lagMs;
    this.#lagMs = 0;
    return Math.round(lagMs);
  }

  /** The share of the time since the last call in which the event loop was busy. A period under a second would say little: it continues the last one. */
  takeBusyShare(): number {
    const { active, idle, utilization } = performance.eventLoopUtilization(this.#used);
    if (active + idle >= everyMs) {
      this.#busyShare = Math.round(utilization * 100) / 100;
      this.#used = performance.eventLoopUtilization();
    }
    return this.#busyShare;
  }

  #tick(): void {
    const now = performance.now();
    this.#lagMs = Math.max(this.#lagMs, now - this.#expectedAt);
    this.#expectedAt = now + everyMs;
    this.#onTick();
  }
}
