import type { Db } from "../db/db.ts";
import { wake, type EncodedRow, type EnqueuedRow } from "../sql/enqueue.ts";

/**
 * Sends wakes after the commit they speak of, gathered while one is on its way. NOTIFY serialises commits instance-wide,
 * so none is sent unless some worker listens, and never within the enqueue itself.
 */
export class Waker {
  readonly #db: Db;
  readonly #listeners = new Set<(hint: string) => void>();
  readonly #hints = new Set<string>();
  #sending: Promise<void> | undefined;

  constructor(db: Db) {
    this.#db = db;
  }

  /** A worker in this process hears without the database's help. */
  listen(listener: (hint: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Speak of jobs that were just committed. */
  enqueued(rows: readonly EncodedRow[], answers: readonly EnqueuedRow[], notify: boolean): void {
    const created = answers.filter((answer) => answer.created).map((answer) => rows[answer.ordinal - 1]?.row);
    const hints = new Set<string>();
    for (const row of created) {
      if (row !== undefined)
        hints.add(row.run_at === undefined && row.delay_ms === undefined ? `ready:${row.queue}` : "due");
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
      // Lost wakes cost a poll's time and nothing else.
      await wake(this.#db, hints).catch(() => undefined);
    }
    this.#sending = undefined;
  }
}
