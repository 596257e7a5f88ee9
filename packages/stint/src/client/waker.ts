import type { Db } from "../db/db.ts";
import { sleep } from "../runtime/sleep.ts";
import { wake, type EncodedRow, type EnqueuedRow } from "../sql/enqueue.ts";

/**
 * From one wake to the next. The first after a quiet time goes at once; in a stream of enqueues each wake would cost a
 * transaction here and a claim of one or two jobs in every worker that hears it.
 */
const leastMs = 2;
/** After a time without wakes this long, the next enqueue carries its own. */
const quietMs = 10;

/**
 * Sends wakes. The first after a quiet time goes within the enqueue, which saves the worker a round trip of waiting. In a
 * stream they are sent after the commits they speak of, gathered while one is on its way: NOTIFY serialises the commits
 * of a whole server. None is sent unless some worker listens.
 */
export class Waker {
  readonly #db: Db;
  readonly #listeners = new Set<(hint: string) => void>();
  readonly #hints = new Set<string>();
  #sending: Promise<void> | undefined;
  #wokeAt = -Infinity;

  constructor(db: Db) {
    this.#db = db;
  }

  /** A worker in this process hears without the database's help. */
  listen(listener: (hint: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether the enqueue that is sent now should carry its own wake. */
  ridesAlong(): boolean {
    const at = performance.now();
    if (this.#sending !== undefined || at - this.#wokeAt < quietMs) return false;
    this.#wokeAt = at;
    return true;
  }

  /** Speak of jobs that were just committed; to other processes only if they have not been told by the commit itself. */
  enqueued(rows: readonly EncodedRow[], answers: readonly EnqueuedRow[], notify: boolean): void {
    const hints = new Set<string>();
    let told: string | undefined;
    for (const { created, ordinal } of answers) {
      const row = rows[ordinal - 1]?.row;
      if (!created || row === undefined) continue;
      if (row.run_at !== undefined || row.delay_ms !== undefined) hints.add("due");
      // Neighbours are mostly of one queue; making a text for each of a thousand shows in profiles.
      else if (row.queue !== told) hints.add(`ready:${(told = row.queue)}`);
    }
    this.tell(hints, notify && answers[0]?.hears === true);
  }

  tell(hints: Iterable<string>, notify: boolean): void {
    for (const hint of hints) {
      for (const listener of this.#listeners) listener(hint);
      if (notify) this.#hints.add(hint);
    }
    if (this.#hints.size > 0) this.#sending ??= this.#send();
  }

  async idle(): Promise<void> {
    await this.#sending;
  }

  async #send(): Promise<void> {
    while (this.#hints.size > 0) {
      const hints = [...this.#hints];
      this.#hints.clear();
      this.#wokeAt = performance.now();
      // Lost wakes cost a poll's time and nothing else.
      await wake(this.#db, hints).catch(() => undefined);
      const restMs = leastMs - (performance.now() - this.#wokeAt);
      if (restMs > 0) await sleep(Math.ceil(restMs));
    }
    this.#sending = undefined;
  }
}
