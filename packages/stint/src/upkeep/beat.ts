/** A step of the series. */
const everyMs = 10_000;
/** Not close to either end of a step: a timer that is a little early or late must still be within it. */
const marginMs = 1_000;

/**
 * When a worker tells what it counted: once within each ten seconds of the database's clock, at a place in them of its own. Told
 * every ten seconds or so, a step would get nothing and the next one twice as much.
 */
export class Beat {
  readonly #placeMs: number;
  /** When a step began, by the clock of this process. Until the database has said when, any moment will do. */
  #beganAt = 0;

  /** @param random From 0 to 1: workers that started together must not tell together. */
  constructor(random = Math.random()) {
    this.#placeMs = marginMs + random * (everyMs - 2 * marginMs);
  }

  /** It was `databaseMs` by the clock of the database when it was `at` here. */
  setBy(databaseMs: number, at: number): void {
    if (Number.isFinite(databaseMs)) this.#beganAt = at - (databaseMs % everyMs);
  }

  /** How long from then on until the place in the next step, or in this one if it is still ahead. */
  restMs(at: number): number {
    const within = (at - this.#beganAt) % everyMs;
    const restMs = (this.#placeMs - within + everyMs) % everyMs;
    // It is now, or has just been, and this is what was done about it.
    return restMs < marginMs ? restMs + everyMs : restMs;
  }
}
