/**
 * How much work to prefetch, in milliseconds of it: a few round trips, so that slots never wait for one. With a fixed time, a
 * server whose round trips take half of it would starve the slots; fewer jobs would end, so fewer would be prefetched, and so on.
 */
const leastAheadMs = 50;
const mostAheadMs = 250;
const roundTrips = 4;
/** The most jobs to prefetch. */
export const mostAhead = 2_000;
/** The most characters of payloads to prefetch. */
const heaviestAhead = 4_194_304;
const slowly = 0.05;

/**
 * How many jobs a pool claims beyond its free slots: as many as it ends in a moment. A pool of long jobs prefetches nothing,
 * because a job that waits here could run elsewhere. The rate of ends alone does not show long jobs: ten that began together end
 * together.
 */
export class Prefetch {
  #slots: number;
  #tookMs = 0;
  #ended = 0;
  #since: number | undefined;
  #perMs = 0;
  #heaviest = 0;
  #aheadMs = leastAheadMs;

  constructor(slots: number) {
    this.#slots = slots;
  }

  setSlots(slots: number): void {
    this.#slots = slots;
  }

  /** A handler ended. The estimate follows a longer run at once, and shorter ones slowly. */
  ended(tookMs: number): void {
    this.#ended += 1;
    this.#tookMs = tookMs > this.#tookMs ? tookMs : this.#tookMs + (tookMs - this.#tookMs) * slowly;
  }

  /** A claim returned after `roundTripMs`. The jobs that ended since the last one give the rate of the pool. */
  measure(at: number, heaviest: number, roundTripMs: number): void {
    const ms = Math.max(at - (this.#since ?? at), 0.1);
    const perMs = this.#ended / ms;
    this.#perMs = perMs > this.#perMs ? perMs : (perMs + this.#perMs) / 2;
    this.#heaviest = Math.max(heaviest, this.#heaviest / 2);
    // Longer at once, shorter by half at every claim, like the rate.
    const aheadMs = Math.max(roundTrips * roundTripMs, this.#aheadMs / 2, leastAheadMs);
    this.#aheadMs = Math.min(aheadMs, mostAheadMs);
    this.#ended = 0;
    this.#since = at;
  }

  /** Prefetched jobs waited for too long: measure the rate anew. */
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
