import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { longestTimerMs, Wakeable } from "../runtime/sleep.ts";

export type ServiceOptions = {
  readonly name: string;
  readonly logger: Logger;
  /** Do the work once. Returns how long to rest, in milliseconds. */
  readonly tick: () => Promise<number>;
};

/**
 * A loop of ticks and rests. Any worker may run any service at any time. A failed tick is logged and retried with a growing delay; only `stop`
 * ends the loop.
 */
export class Service {
  readonly #options: ServiceOptions;
  readonly #wake = new Wakeable();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #paused = false;
  /** Infinity during a tick, because its rest is not known yet: `wakeIn` must not be ignored then. */
  #restUntil = Infinity;
  #early: NodeJS.Timeout | undefined;
  #tickedAt: number | undefined;

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  /** How long the next tick is late, or the current tick has been running; 0 while the service rests. */
  get overdueMs(): number {
    const now = performance.now();
    if (this.#tickedAt !== undefined) return now - this.#tickedAt;
    return this.#paused ? 0 : Math.max(0, now - this.#restUntil);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Tick in so many milliseconds at the latest, rather than at the end of the rest. */
  wakeIn(ms: number): void {
    if (ms <= 0) return this.#wake.wake();
    const at = performance.now() + ms;
    if (at >= this.#restUntil || ms > longestTimerMs) return;
    this.#restUntil = at;
    clearTimeout(this.#early);
    this.#early = setTimeout(() => this.#wake.wake(), ms);
  }

  /** Rest until `resume`. A running tick ends first. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#wake.wake();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    clearTimeout(this.#early);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const { name, logger, tick } = this.#options;
    const retryDelay = new RetryDelay();
    while (!signal.aborted) {
      let restMs: number;
      this.#restUntil = Infinity;
      this.#tickedAt = performance.now();
      try {
        restMs = await tick();
        retryDelay.reset();
      } catch (error) {
        logger.warn({ err: error, service: name }, "upkeep service failed; retrying");
        restMs = retryDelay.next();
      }
      this.#tickedAt = undefined;
      this.#restUntil = Math.min(this.#restUntil, performance.now() + restMs);
      do await this.#wake.wait(this.#paused ? Infinity : restMs, signal);
      while (this.#paused && !signal.aborted);
      clearTimeout(this.#early);
    }
  }
}
