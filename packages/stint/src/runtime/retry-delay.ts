/**
 * Delays between the retries of a loop: exponential, with jitter, capped.
 *
 * Each delay is drawn from the upper half of its range. It is never zero, so a database that is down is
 * not flooded. It is random, so workers that lost the database together do not return together.
 */
export class RetryDelay {
  readonly #random: () => number;
  readonly #baseMs: number;
  readonly #capMs: number;
  #failures = 0;

  constructor(random: () => number = Math.random, { baseMs = 100, capMs = 5_000 } = {}) {
    this.#random = random;
    this.#baseMs = baseMs;
    this.#capMs = capMs;
  }

  /** The delay in milliseconds after one more failure. */
  next(): number {
    const ceiling = Math.min(this.#capMs, this.#baseMs * 2 ** this.#failures++);
    return Math.round(ceiling / 2 + (ceiling / 2) * this.#random());
  }

  /** After a success: the next failure counts as the first one. */
  reset(): void {
    this.#failures = 0;
  }
}
