/** The narrowest step of the series. */
const stepMs = 10_000;
/** Distance kept from both ends of a step: a timer that fires a little early or late must still hit its step. */
const marginMs = 1_000;

/**
 * When a worker flushes its counters: once within each ten seconds of the database's clock, at an offset of its own. A plain ten-second
 * timer would drift: one step would get no counters, and the next one twice as many.
 */
export class FlushTiming {
  readonly #offsetMs: number;
  /** When a step began, by the clock of this process. Any moment, until the database has reported its clock. */
  #stepBeganAt = 0;

  /** @param random From 0 to 1: workers that started together must not flush together. */
  constructor(random = Math.random()) {
    this.#offsetMs = marginMs + random * (stepMs - 2 * marginMs);
  }

  /** The database's clock showed `databaseMs` when the clock of this process showed `at`. */
  setBy(databaseMs: number, at: number): void {
    if (Number.isFinite(databaseMs)) this.#stepBeganAt = at - (databaseMs % stepMs);
  }

  /** Milliseconds from `at` until this worker's offset in the current step, or in the next one if it has passed. */
  restMs(at: number): number {
    const sinceStepBegan = (at - this.#stepBeganAt) % stepMs;
    const restMs = (this.#offsetMs - sinceStepBegan + stepMs) % stepMs;
    // The offset is now or was just reached, and this flush was for it.
    return restMs < marginMs ? restMs + stepMs : restMs;
  }
}
