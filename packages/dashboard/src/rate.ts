/** How often each visitor may do something: so many times at once, refilled at a steady rate. */
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

  /** Seconds to wait; 0: go on, and one is taken. */
  take(who: string): number {
    const wait = this.wait(who);
    if (wait === 0) this.charge(who);
    return wait;
  }

  /** The same, and nothing is taken. */
  wait(who: string): number {
    const tokens = this.#tokens(who);
    return tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - tokens) / this.#perSecond));
  }

  /** Take one for what has happened already, also where there is none left: the debt is waited for. */
  charge(who: string): void {
    const tokens = Math.max(this.#tokens(who) - 1, -this.#burst);
    // Put back at the end: the first in the map is then the one not heard of for longest.
    this.#buckets.delete(who);
    this.#buckets.set(who, { tokens, at: this.#now() });
    this.#forget();
  }

  #tokens(who: string): number {
    const bucket = this.#buckets.get(who);
    if (bucket === undefined) return this.#burst;
    const refilled = ((this.#now() - bucket.at) / 1_000) * this.#perSecond;
    return Math.min(this.#burst, bucket.tokens + refilled);
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
