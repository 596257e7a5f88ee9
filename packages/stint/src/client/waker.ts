import type { Db } from "../db/db.ts";
import { sleep } from "../runtime/sleep.ts";
import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";
import { wake } from "../sql/wake.ts";

/**
 * The shortest time between two wakes with transactions of their own. In a stream of enqueues each wake would cost a transaction here,
 * and a claim of one or two jobs in every listening worker.
 */
const leastMs = 2;
/**
 * The shortest time between two enqueues that include a wake. At 500 enqueues a second nearly each one does, which spares a round trip
 * and starts the job 1 ms earlier.
 */
const leastRideMs = 1;
/** The longest time: an enqueue may also take long because it waits for the lock of a dedupe key. */
const mostRideMs = 20;

/**
 * Sends wakes. A wake is part of the enqueue unless the last such enqueue was a moment ago. NOTIFY serializes the commits that include
 * one, of the whole server: where many processes enqueue, these commits take longer, and each process includes fewer wakes. The other
 * wakes are sent after the commits and coalesced while one is in flight. No wake is sent unless a worker listens.
 */
export class Waker {
  readonly #db: Db;
  readonly #listeners = new Set<(hint: string) => void>();
  /** Hints to send, with the number of jobs; null: for every worker. */
  readonly #hints = new Map<string, number | null>();
  #sending: Promise<void> | undefined;
  /** When an enqueue last included a wake, and how long until the next may. */
  #rodeAt = -Infinity;
  #rideMs = leastRideMs;

  constructor(db: Db) {
    this.#db = db;
  }

  /** A worker in this process is woken directly. */
  listen(listener: (hint: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether an enqueue sent now should include its own wake. */
  ridesAlong(): boolean {
    const at = performance.now();
    if (at - this.#rodeAt < this.#rideMs) return false;
    this.#rodeAt = at;
    return true;
  }

  /** An enqueue that included its wake took so long. */
  rodeAlong(tookMs: number): void {
    this.#rideMs = Math.min(Math.max(tookMs, leastRideMs), mostRideMs);
  }

  /** Wake workers for committed jobs. Other processes are woken only if the commit did not include a wake. */
  enqueued(rows: readonly EncodedRow[], results: readonly EnqueuedRow[], notify: boolean): void {
    const hints = new Map<string, number | null>();
    let lastQueue: string | undefined;
    let lastHint = "";
    for (const { status, ordinal } of results) {
      const row = rows[ordinal - 1]?.row;
      if (status === "existing" || row === undefined) continue;
      if (row.run_at !== undefined || row.delay_ms !== undefined) hints.set("due", null);
      else {
        // Consecutive rows are mostly of one queue; building a text for each of a thousand is visible in profiles.
        if (row.queue !== lastQueue) lastHint = `ready:${(lastQueue = row.queue)}`;
        hints.set(lastHint, (hints.get(lastHint) ?? 0) + 1);
      }
    }
    this.#wake(hints, notify && results[0]?.listening === true);
  }

  /** Each hint is for at most so many jobs. Without a number it is for every worker. */
  wake(hints: Iterable<string>, notify: boolean, jobs?: number): void {
    this.#wake(new Map([...hints].map((hint) => [hint, jobs ?? null])), notify);
  }

  #wake(hints: ReadonlyMap<string, number | null>, notify: boolean): void {
    for (const [hint, jobs] of hints) {
      for (const listener of this.#listeners) listener(hint);
      if (!notify) continue;
      const before = this.#hints.get(hint);
      this.#hints.set(hint, jobs === null || before === null ? null : jobs + (before ?? 0));
    }
    if (this.#hints.size > 0) this.#sending ??= this.#send();
  }

  async idle(): Promise<void> {
    await this.#sending;
  }

  async #send(): Promise<void> {
    while (this.#hints.size > 0) {
      const [hints, jobs] = [[...this.#hints.keys()], [...this.#hints.values()]];
      this.#hints.clear();
      const sentAt = performance.now();
      // A lost wake delays the job until the next poll; nothing else.
      await wake(this.#db, hints, jobs).catch(() => undefined);
      const restMs = leastMs - (performance.now() - sentAt);
      if (restMs > 0) await sleep(Math.ceil(restMs));
    }
    this.#sending = undefined;
  }
}
