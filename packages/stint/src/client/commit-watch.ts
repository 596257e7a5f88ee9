import type { Db } from "../db/db.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { Wakeable } from "../runtime/sleep.ts";
import { commitStatusesOf, type CommitStatus } from "../sql/commit-status.ts";

export type CommitHook = () => unknown;

type Watched = { readonly since: number; readonly hooks: CommitHook[] };

const soonestMs = 5;
const latestMs = 1_000;

/**
 * Calls hooks once their transactions have committed. The database is asked how a transaction ended, on a connection of the client: no
 * transaction of pg, of a query builder or of an ORM has to report its COMMIT, and a COMMIT whose response was lost counts as what it was.
 */
export class CommitWatch {
  readonly #db: Db;
  readonly #logger: Logger;
  readonly #watched = new Map<string, Watched>();
  readonly #changed = new Wakeable();
  #loop: Promise<void> | undefined;
  #isClosing = false;

  constructor(db: Db, logger: Logger) {
    this.#db = db;
    this.#logger = logger;
  }

  add(xid: string, hook: CommitHook): void {
    const known = this.#watched.get(xid);
    if (known === undefined) this.#watched.set(xid, { since: performance.now(), hooks: [hook] });
    else known.hooks.push(hook);
    this.#changed.wake();
    this.#loop ??= this.#run().finally(() => (this.#loop = undefined));
  }

  /** Looks once more, and drops the hooks of transactions that are still open. Undefined if there are none. */
  close(): Promise<void> | undefined {
    this.#isClosing = true;
    this.#changed.wake();
    return this.#loop;
  }

  async #run(): Promise<void> {
    const retryDelay = new RetryDelay();
    let failed = false;
    while (this.#watched.size > 0) {
      const isLast = this.#isClosing;
      if (!isLast) await this.#changed.wait(failed ? retryDelay.next() : this.#pauseMs());
      try {
        const statuses = await commitStatusesOf(this.#db, [...this.#watched.keys()]);
        failed = false;
        retryDelay.reset();
        for (const [xid, status] of statuses) if (status !== "in progress") await this.#ended(xid, status);
      } catch (error) {
        failed = true;
        this.#logger.debug(
          { err: error },
          "could not look whether transactions have committed; trying again",
        );
      }
      if (isLast) break;
    }
    if (this.#watched.size === 0) return;
    this.#logger.warn(
      { transactions: this.#watched.size },
      "afterCommit hooks were dropped: the client was closed before their transactions ended",
    );
    this.#watched.clear();
  }

  /** Young transactions end soon. One that stays open for long costs one statement a second. */
  #pauseMs(): number {
    const youngest = Math.max(...[...this.#watched.values()].map(({ since }) => since));
    return Math.min(Math.max((performance.now() - youngest) / 2, soonestMs), latestMs);
  }

  async #ended(xid: string, status: CommitStatus): Promise<void> {
    const hooks = this.#watched.get(xid)?.hooks ?? [];
    this.#watched.delete(xid);
    if (status === "unknown")
      this.#logger.error(
        { xid },
        "afterCommit hooks were dropped: the server no longer knows the transaction",
      );
    if (status !== "committed") return;
    for (const hook of hooks) {
      try {
        await hook();
      } catch (error) {
        this.#logger.error({ err: error }, "an afterCommit hook failed");
      }
    }
  }
}
