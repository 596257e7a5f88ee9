/**
 * How much work to hold ready, in milliseconds of it: a few round trips, so that slots never wait for one. Were it a fixed
 * time, a server that takes longer than half of it to answer would starve the slots; starved, they end less; and what ends
 * less is given less, until each claim brings a handful.
 */
const leastAheadMs = 50;
const mostAheadMs = 250;
const roundTrips = 4;
const mostAhead = 2_000;
/** Characters of payloads to hold ready. */
const heaviestAhead = 4_194_304;
const slowly = 0.05;

/**
 * How many jobs a pool should claim ahead of its free slots: as many as it ends in a moment. A pool of long jobs claims
 * none ahead, because what waits here could run elsewhere. How often jobs end does not tell them apart: ten long ones that
 * began together end together.
 */
export class Prefetch {
  readonly #slots: number;
  #tookMs = 0;
  #ended = 0;
  #since: number | undefined;
  #perMs = 0;
  #heaviest = 0;
  #aheadMs = leastAheadMs;

  constructor(slots: number) {
    this.#slots = slots;
  }

  /** A handler ended. One that took long is believed at once, that they are quick only little by little. */
  ended(tookMs: number): void {
    this.#ended += 1;
    this.#tookMs = tookMs > this.#tookMs ? tookMs : this.#tookMs + (tookMs - this.#tookMs) * slowly;
  }

  /** A claim was answered, after so long: what ended since the one before says how quick this pool is. */
  measure(at: number, heaviest: number, roundTripMs: number): void {
    const ms = Math.max(at - (this.#since ?? at), 0.1);
    const perMs = this.#ended / ms;
    this.#perMs = perMs > this.#perMs ? perMs : (perMs + this.#perMs) / 2;
    this.#heaviest = Math.max(heaviest, this.#heaviest / 2);
    // Longer at once, and shorter by half at every claim, like the pace itself.
    const aheadMs = Math.max(roundTrips * roundTripMs, this.#aheadMs / 2, leastAheadMs);
    this.#aheadMs = Math.min(aheadMs, mostAheadMs);
    this.#ended = 0;
    this.#since = at;
  }

  /** Jobs waited here for too long: forget how quick it was. */
  reset(): void {
    this.#perMs = 0;
    this.#ended = 0;
  }

  get ahead(): number {
    const aheadMs = this.#aheadMs;
    if (this.#tookMs >= aheadMs) return 0;
    const byLength = (this.#slots * aheadMs) / this.#tookMs;
    const byWeight = heaviestAhead / Math.max(this.#heaviest, 1);
    return Math.floor(Math.min(this.#perMs * aheadMs, byLength, byWeight, mostAhead));
  }
}
