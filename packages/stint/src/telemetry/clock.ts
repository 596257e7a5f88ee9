/**
 * The database's time, estimated from this machine's clock. Accurate to about a round trip, which is enough for a histogram. Nothing is
 * decided by it.
 */
export class DatabaseClock {
  #aheadMs = 0;

  /** The database has just returned its time. */
  sync(at: string): void {
    const ms = Date.parse(at);
    if (Number.isFinite(ms)) this.#aheadMs = ms - Date.now();
  }

  now(): number {
    return Date.now() + this.#aheadMs;
  }
}
