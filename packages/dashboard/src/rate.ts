/** Rate limits per visitor: token buckets with a burst and a steady refill. */
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

  /** Takes a token. Returns 0, or the seconds to wait. */
  take(who: string): number {
    const wait = this.wait(who);
    if (wait === 0) this.charge(who);
    return wait;
  }

  /** Returns the seconds to wait without taking a token. */
  wait(who: string): number {
    const tokens = this.#tokens(who);
    return tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - tokens) / this.#perSecond));
  }

  /** Takes a token for a past event, even if none is left: a negative balance lengthens the wait. */
  charge(who: string): void {
    const tokens = Math.max(this.#tokens(who) - 1, -this.#burst);
    // Re-inserted at the end, so that the first entry of the map is the least recently used.
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

  /** Bounded, because clients can send any number of names. */
  #forget(): void {
    if (this.#buckets.size <= 10_000) return;
    for (const oldest of this.#buckets.keys()) {
      this.#buckets.delete(oldest);
      return;
    }
  }
}
