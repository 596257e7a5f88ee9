import type { Db } from "../db/db.ts";
import { isUnavailable } from "../db/transient.ts";
import { codeOf } from "../db/sqlstate.ts";
import { JobFailedError, WaitTimeoutError } from "../errors.ts";
import { sleep, Wakeable } from "../runtime/sleep.ts";
import { finished, type Finished } from "../sql/find.ts";
import { explainError } from "./explain-error.ts";

const shortestPollMs = 25;
const longestPollMs = 1_000;

type Waiter = {
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  /** Ends the wait before the job has ended. */
  timeOut: () => void;
};

/** Waits for jobs to end. One poll per process serves all waiters, so a thousand waiters cost one statement. */
export class Waiting {
  readonly #db: Db;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #arrival = new Wakeable();
  #polling = false;
  #pollMs = shortestPollMs;
  readonly #closed = new AbortController();

  constructor(db: Db) {
    this.#db = db;
  }

  async for(job: string, timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<unknown> {
    signal?.throwIfAborted();
    const since = Date.now();
    return await new Promise((resolve, reject) => {
      const over = new AbortController();
      const settle = (): void => {
        over.abort();
        signal?.removeEventListener("abort", abort);
        const waiters = this.#waiters.get(job);
        waiters?.delete(waiter);
        if (waiters?.size === 0) this.#waiters.delete(job);
        // No waiter is left: end the poll's sleep.
        if (this.#waiters.size === 0) this.#arrival.wake();
      };
      const waiter: Waiter = {
        resolve: (result) => (settle(), resolve(result)),
        reject: (error) => (settle(), reject(error)),
        timeOut: () => waiter.reject(new WaitTimeoutError(job, Date.now() - since)),
      };
      const abort = (): void => waiter.reject(signal?.reason);
      signal?.addEventListener("abort", abort, { once: true });
      if (timeoutMs !== undefined)
        void sleep(timeoutMs, over.signal).then(() => over.signal.aborted || waiter.timeOut());

      const waiters = this.#waiters.get(job) ?? new Set();
      this.#waiters.set(job, waiters.add(waiter));
      this.#pollMs = shortestPollMs;
      if (this.#polling) this.#arrival.wake();
      else void this.#poll();
    });
  }

  /** End all waits. */
  close(): void {
    this.#closed.abort();
    for (const waiter of this.#allWaiters()) waiter.timeOut();
  }

  #allWaiters(): Waiter[] {
    return [...this.#waiters.values()].flatMap((waiters) => Array.from(waiters));
  }

  async #poll(): Promise<void> {
    this.#polling = true;
    const { signal } = this.#closed;
    while (this.#waiters.size > 0 && !signal.aborted) {
      try {
        for (const job of await finished(this.#db, [...this.#waiters.keys()])) this.#finish(job);
      } catch (error) {
        // While the database is unavailable, the waiters' own timeouts apply. A permanent error rejects all waits.
        if (isLasting(error)) {
          for (const waiter of this.#allWaiters()) waiter.reject(explainError(error, this.#db.schema));
        }
      }
      if (this.#waiters.size === 0) break;
      // New waiters are served soon, but never more often than this.
      await sleep(shortestPollMs, signal);
      if (this.#pollMs > shortestPollMs) await this.#arrival.wait(this.#pollMs - shortestPollMs, signal);
      this.#pollMs = Math.min(this.#pollMs * 1.5, longestPollMs);
    }
    this.#polling = false;
  }

  #finish(job: Finished): void {
    for (const waiter of this.#waiters.get(job.id) ?? []) {
      if (job.state === "succeeded") waiter.resolve(job.result);
      else waiter.reject(new JobFailedError(job.id, job.state, job.reason));
    }
  }
}

/** For example a missing table or a missing right. */
function isLasting(error: unknown): boolean {
  return !isUnavailable(error) && /^(?:42|3F)/.test(codeOf(error) ?? "");
}
