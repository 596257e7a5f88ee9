import type { Pool, PoolClient } from "pg";

/** How long unused connections stay out of the pool. */
const idleMs = 1_000;
/** How long a busy one does. The pool replaces old connections, and looks at their age when they return. */
const longestMs = 60_000;

/**
 * Connections that wait for the next statement outside their pool. A checkout and a return cost the pool two timers, two listeners and a turn of the
 * event loop. At everyday rates, where a statement has one job, that is a tenth of the processor time of its client.
 */
export class KeptClients {
  readonly #pool: Pool;
  readonly #now: () => number;
  readonly #idle: PoolClient[] = [];
  /** When each of them was first kept after its checkout. */
  readonly #since = new WeakMap<PoolClient, number>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(pool: Pool, now: () => number = () => performance.now()) {
    this.#pool = pool;
    this.#now = now;
  }

  /** The connection that was used last; undefined if the pool has to lend one. */
  take(): PoolClient | undefined {
    return this.#idle.pop();
  }

  /** Its statement is over. Callers that wait for the pool come first. */
  keep(client: PoolClient): void {
    if (this.#isClosed || this.#pool.waitingCount > 0 || this.#isOld(client)) return this.#release(client);
    this.#idle.push(client);
    this.#timer ??= setTimeout(() => this.#releaseIdle(), idleMs).unref();
  }

  /** Its connection is lost. Does nothing if a statement is using it: that statement fails. */
  lost(client: PoolClient): void {
    const index = this.#idle.indexOf(client);
    if (index >= 0) this.#release(this.#idle.splice(index, 1)[0] as PoolClient, true);
  }

  /** Return all of them to the pool, and keep no more. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#releaseIdle();
  }

  #isOld(client: PoolClient): boolean {
    const now = this.#now();
    const since = this.#since.get(client);
    if (since === undefined) this.#since.set(client, now);
    return since !== undefined && now - since > longestMs;
  }

  #releaseIdle(): void {
    this.#timer = undefined;
    for (const client of this.#idle.splice(0)) this.#release(client);
  }

  #release(client: PoolClient, destroy = false): void {
    this.#since.delete(client);
    client.release(destroy);
  }
}
