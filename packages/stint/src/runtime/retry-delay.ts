/**
 * How long a loop waits after each failure in a row before it tries again.
 *
 * Each delay is drawn from the upper half of its range: never zero, so a database that is down is not
 * hammered, and never the same, so workers that lost it together do not come back together.
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

  /** It worked: the next failure is a first one again. */
  reset(): void {
    this.#failures = 0;
  }
}
