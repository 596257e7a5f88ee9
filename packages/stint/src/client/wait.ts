import type { Db } from "../db/db.ts";
import { isUnavailable } from "../db/transient.ts";
import { codeOf } from "../db/sqlstate.ts";
import { JobFailedError, WaitTimeoutError } from "../errors.ts";
import { onAbort } from "../runtime/on-abort.ts";
import { sleep, Wakeable } from "../runtime/sleep.ts";
import { finished, type Finished } from "../sql/find.ts";
import { EndedListener, type EndedListenerOptions } from "./ended-listener.ts";
import { explainError } from "./explain-error.ts";

const shortestPollMs = 25;
const longestPollMs = 1_000;
/** Jobs that one statement asks for. */
const perStatement = 2_000;
/** Polling takes at most this share of the time: with 10,000 waiters a statement is not free. */
const busyShare = 0.1;

type Waiter = {
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  /** Ends the wait before the job has ended. */
  timeOut: () => void;
};

/**
 * Waits for jobs to end. One listener and one poll per client serve all waiters. Workers report ended jobs to the listener, so that
 * waiters are prompt; the poll finds whatever was not reported.
 */
export class Waiting {
  readonly #db: Db;
  readonly #listener: EndedListener;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #arrival = new Wakeable();
  /** Jobs that were reported as ended and are yet to be read. */
  #reported = new Set<string>();
  /** There are new waiters, or reports may have been missed: read all of them soon. */
  #mayHaveEnded = false;
  #polling = false;
  #pollMs = shortestPollMs;
  readonly #closed = new AbortController();

  constructor(db: Db, options: Omit<EndedListenerOptions, "onEnded" | "schema">) {
    this.#db = db;
    this.#listener = new EndedListener({
      ...options,
      schema: db.schema,
      onEnded: (ids) => this.reported(ids),
    });
  }

  async for(job: string, timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<unknown> {
    signal?.throwIfAborted();
    const since = Date.now();
    return await new Promise((resolve, reject) => {
      const over = new AbortController();
      const settle = (): void => {
        over.abort();
        takeBack?.();
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
      const takeBack = signal === undefined ? undefined : onAbort(signal, abort);
      if (timeoutMs !== undefined)
        void sleep(timeoutMs, over.signal).then(() => over.signal.aborted || waiter.timeOut());

      const waiters = this.#waiters.get(job) ?? new Set();
      this.#waiters.set(job, waiters.add(waiter));
      this.#readAllSoon();
      if (!this.#polling) void this.#poll();
    });
  }

  /** End all waits. */
  async close(): Promise<void> {
    this.#closed.abort();
    for (const waiter of this.#allWaiters()) waiter.timeOut();
    await this.#listener.stop();
  }

  #allWaiters(): Waiter[] {
    return [...this.#waiters.values()].flatMap((waiters) => Array.from(waiters));
  }

  /** These jobs have ended; `any`: reports may have been missed. */
  reported(ids: readonly string[] | "any"): void {
    if (ids === "any") return this.#readAllSoon();
    for (const id of ids) if (this.#waiters.has(id)) this.#reported.add(id);
    if (this.#reported.size > 0) this.#arrival.wake();
  }

  #readAllSoon(): void {
    this.#pollMs = shortestPollMs;
    this.#mayHaveEnded = true;
    if (this.#polling) this.#arrival.wake();
  }

  async #poll(): Promise<void> {
    this.#polling = true;
    const { signal } = this.#closed;
    this.#listener.start();
    let readAllAt = 0;
    /** Not before this time: polling must not take all the time of a connection. */
    let earliestAt = 0;
    while (this.#waiters.size > 0 && !signal.aborted) {
      const startedAt = performance.now();
      if (startedAt >= readAllAt) {
        this.#mayHaveEnded = false;
        await this.#read([...this.#waiters.keys()]);
        const endedAt = performance.now();
        earliestAt = endedAt + Math.max(shortestPollMs, (endedAt - startedAt) * (1 / busyShare - 1));
        readAllAt = Math.max(earliestAt, endedAt + this.#pollMs);
        this.#pollMs = Math.min(this.#pollMs * 1.5, longestPollMs);
      } else if (this.#reported.size > 0) await this.#read([...this.#reported]);
      if (this.#waiters.size === 0) break;
      if (this.#reported.size === 0)
        await this.#arrival.wait(Math.max(1, readAllAt - performance.now()), signal);
      if (this.#mayHaveEnded) readAllAt = Math.min(readAllAt, earliestAt);
    }
    this.#listener.pause();
    this.#polling = false;
  }

  async #read(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; from += perStatement) {
      const some = ids.slice(from, from + perStatement);
      for (const id of some) this.#reported.delete(id);
      try {
        for (const job of await finished(this.#db, some)) this.#settle(job);
      } catch (error) {
        // While the database is unavailable, the waiters' own timeouts apply. A permanent error rejects all waits.
        if (!isLasting(error)) return;
        for (const waiter of this.#allWaiters()) waiter.reject(explainError(error, this.#db.schema));
      }
    }
  }

  #settle(job: Finished): void {
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
