/** The share of the time that sweeps may take. */
const share = 0.05;
/** The burst allowance on top, after a time with few sweeps; a worker starts with the full allowance. */
const allowanceMs = 100;
/** A longer sweep waited for a lock or a lost connection. It counts as this long. */
const longestMs = 1_000;

/**
 * Schedules sweeps: claims that scan everything instead of starting at the floors. Sweeps take 5 % of the time. The next sweep
 * comes after twenty times the duration of the last one, at most 20 s later: an expensive sweep does not displace work, and a
 * cheap one is repeated soon.
 */
export class Sweeps {
  #spentMs = 0;
  #at = 0;

  /** Milliseconds from `at` until the next sweep is allowed. */
  inMs(at: number): number {
    return Math.max(this.#spentBy(at) - allowanceMs, 0) / share;
  }

  /** Record a finished sweep. `sparedMs`: the duration of the claim from the floors that it replaced; only the rest is spent. */
  done(sentAt: number, respondedAt: number, sparedMs = 0): void {
    const tookMs = Math.min(respondedAt - sentAt, longestMs);
    this.#spentMs = Math.max(this.#spentBy(respondedAt) + tookMs - sparedMs, 0);
    this.#at = respondedAt;
  }

  #spentBy(at: number): number {
    return Math.max(this.#spentMs - share * (at - this.#at), 0);
  }
}
