import type { Pool } from "./options.ts";

/** Places for running attempts, by pool, and what is known of each queue. */
export class Slots {
  readonly #pools: readonly Pool[];
  readonly #poolOf = new Map<string, Pool>();
  readonly #running = new Map<Pool, number>();
  /** Queues whose last claim came back short. They are left alone until a wake or a poll says otherwise. */
  readonly #dry = new Set<string>();
  /** Queues that were spoken of since the last claim was sent: its answer may be older than the news. */
  readonly #news = new Set<string>();

  constructor(pools: readonly Pool[]) {
    this.#pools = pools;
    for (const pool of pools) {
      this.#running.set(pool, 0);
      for (const queue of pool.queues) this.#poolOf.set(queue, pool);
    }
  }

  get queues(): readonly string[] {
    return [...this.#poolOf.keys()];
  }

  get running(): number {
    let running = 0;
    for (const count of this.#running.values()) running += count;
    return running;
  }

  /** No room anywhere: a wake could not be followed. */
  get saturated(): boolean {
    return this.#pools.every((pool) => this.#free(pool) === 0);
  }

  /**
   * What to ask the next claim for. Of a pool with several queues only the first that is not dry is asked, in the
   * order they are listed, so that together they never bring more than the pool has room for.
   */
  takes(): { queue: string; limit: number }[] {
    const takes: { queue: string; limit: number }[] = [];
    this.#news.clear();
    for (const pool of this.#pools) {
      const limit = this.#free(pool);
      const queue = pool.queues.find((name) => !this.#dry.has(name));
      if (limit > 0 && queue !== undefined) takes.push({ queue, limit });
    }
    return takes;
  }

  /** Note how a claim went. */
  claimed(takes: readonly { queue: string; limit: number }[], jobs: readonly { queue: string }[]): void {
    const got = new Map<string, number>();
    for (const job of jobs) got.set(job.queue, (got.get(job.queue) ?? 0) + 1);
    for (const { queue, limit } of takes) {
      if ((got.get(queue) ?? 0) < limit && !this.#news.has(queue)) this.#dry.add(queue);
    }
  }

  take(queue: string): void {
    this.#move(queue, 1);
  }

  /** True if a claim is worth while now: the pool was full and its queues are not known to be empty. */
  free(queue: string): boolean {
    const pool = this.#move(queue, -1);
    return pool?.queues.some((name) => !this.#dry.has(name)) ?? false;
  }

  /** There may be work again. True if it concerns this worker. */
  wet(queue?: string): boolean {
    const queues = queue === undefined ? this.queues : this.#poolOf.has(queue) ? [queue] : [];
    for (const name of queues) {
      this.#dry.delete(name);
      this.#news.add(name);
    }
    return queues.length > 0;
  }

  #free(pool: Pool): number {
    return pool.slots - (this.#running.get(pool) ?? 0);
  }

  #move(queue: string, by: number): Pool | undefined {
    const pool = this.#poolOf.get(queue);
    if (pool !== undefined) this.#running.set(pool, (this.#running.get(pool) ?? 0) + by);
    return pool;
  }
}
