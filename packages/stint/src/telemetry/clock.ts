/**
 * How far this machine's clock is from the database's. Good to about a round trip, which is enough for a histogram; nothing
 * is ever decided by it.
 */
export class DatabaseClock {
  #aheadMs = 0;

  /** The database has just said that this is its time. */
  heard(at: string): void {
    const ms = Date.parse(at);
    if (Number.isFinite(ms)) this.#aheadMs = ms - Date.now();
  }

  now(): number {
    return Date.now() + this.#aheadMs;
  }
}
