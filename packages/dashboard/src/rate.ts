/** How often each visitor may ask: so many at once, refilled at a steady rate. */
export class Rate {
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #now: () => number;

  constructor({ perSecond, burst }: { perSecond: number; burst: number }, now = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#now = now;
  }

  /** Seconds to wait; 0: go on. */
  take(who: string): number {
    const now = this.#now();
    const bucket = this.#buckets.get(who) ?? { tokens: this.#burst, at: now };
    const tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.at) / 1_000) * this.#perSecond);
    const may = tokens >= 1;
    // Put back at the end: the first in the map is then the one not heard of for longest.
    this.#buckets.delete(who);
    this.#buckets.set(who, { tokens: may ? tokens - 1 : tokens, at: now });
    this.#forget();
    return may ? 0 : Math.max(1, Math.ceil((1 - tokens) / this.#perSecond));
  }

  /** Bounded: names may be made up. */
  #forget(): void {
    if (this.#buckets.size <= 10_000) return;
    for (const oldest of this.#buckets.keys()) {
      this.#buckets.delete(oldest);
      return;
    }
  }
}
