import type { ClaimedJob } from "../model/job.ts";
import { requireOneOf } from "../model/options.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import type { PoolView } from "../telemetry/process-metrics.ts";
import type { Take } from "../sql/claim.ts";
import type { QueueRange } from "../sql/ready-queues.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { PoolOptions } from "./options.ts";
import { Pool, type PoolRules } from "./pool.ts";
import { QueueSearch } from "./queue-search.ts";

export type PoolsRules = PoolRules & {
  /** Whether one more crash could kill or quarantine the job. Such jobs are not prefetched. */
  readonly isCrashSuspect: (job: ClaimedJob) => boolean;
  /** Whether the job may be under a limit. */
  readonly isLimited: (job: ClaimedJob) => boolean;
};

/** The pools of one worker. */
export class Pools {
  readonly isCrashSuspect: (job: ClaimedJob) => boolean;
  /** The search for queues with ready jobs, if some pool needs it. */
  readonly search: QueueSearch | undefined;
  readonly #isLimited: (job: ClaimedJob) => boolean;
  readonly #pools: readonly Pool[];
  readonly #byQueue: QueueMap<Pool>;

  constructor(options: readonly PoolOptions[], rules: PoolsRules) {
    this.isCrashSuspect = rules.isCrashSuspect;
    this.#isLimited = rules.isLimited;
    this.#pools = options.map((each) => new Pool(each, rules));
    this.#byQueue = new QueueMap(
      this.#pools.flatMap((pool) => pool.options.queues.map((queue) => [queue, pool] as const)),
    );
    const searched = this.#pools.filter(({ isSearched }) => isSearched);
    this.search =
      searched.length === 0 ? undefined : new QueueSearch(searched.flatMap((pool) => pool.options.queues));
  }

  /** The pool that serves this queue, if one does. */
  find(queue: string): Pool | undefined {
    return this.#byQueue.get(queue);
  }

  /**
   * The pool of this name.
   *
   * @throws {InvalidOptionError} There is none.
   */
  named(name: string): Pool {
    const names = this.#pools.map(({ options }) => options.name);
    const known = requireOneOf("setSlots(pool)", name, names);
    const found = this.#pools.find(({ options }) => options.name === known);
    if (found === undefined) throw new Error(`there is no pool "${name}"`);
    return found;
  }

  serves(queue: string): boolean {
    return this.#byQueue.has(queue);
  }

  /** The queues of the pools that need no search. */
  get namedQueues(): readonly string[] {
    return this.#pools.flatMap(({ options, isSearched }) => (isSearched ? [] : options.queues));
  }

  /** The ranges to search for ready queues; none while no searched pool has room. */
  get searched(): { readonly ranges: readonly QueueRange[]; readonly serves: (queue: string) => boolean } {
    const hasRoom = this.#pools.some((pool) => pool.isSearched && pool.room > 0);
    return { ranges: hasRoom ? (this.search?.ranges ?? []) : [], serves: (queue) => this.serves(queue) };
  }

  get views(): readonly PoolView[] {
    return this.#pools.map((pool) => pool.view);
  }

  /** How many pools there are. */
  get size(): number {
    return this.#pools.length;
  }

  /** The slots of all pools. */
  get slots(): number {
    return this.#pools.reduce((sum, pool) => sum + pool.slots, 0);
  }

  /** How many jobs are here: running, waiting for a slot, or not recorded yet. */
  get busy(): number {
    return this.#pools.reduce((sum, pool) => sum + pool.busy, 0);
  }

  /** Whether no pool has room, so that a wake could not be followed. */
  get saturated(): boolean {
    return this.#pools.every((pool) => pool.room <= 0);
  }

  /** Whether the last claim ended before it came to some queue that may have ready jobs. */
  get isUnasked(): boolean {
    return this.#pools.some((pool) => pool.isUnasked);
  }

  /** What to ask the next claim for. */
  takes(at: number): Take[] {
    return this.#pools.flatMap((pool) => pool.takes(at));
  }

  /** Note what a claim returned. Returns the queues that may have more. */
  claimed(
    takes: readonly Take[],
    jobs: readonly ClaimedJob[],
    { sentAt, at }: { sentAt: number; at: number },
  ): Set<string> {
    const jobsByQueue = new Map<string, number>();
    for (const { queue } of jobs) jobsByQueue.set(queue, (jobsByQueue.get(queue) ?? 0) + 1);
    const jobsOf = this.#byPool(jobs, ({ queue }) => queue);
    const full = new Set<string>();
    for (const [pool, own] of this.#byPool(takes, ({ queue }) => queue)) {
      const got = jobsOf.get(pool) ?? [];
      const left = pool.claimed({
        takes: own,
        jobsByQueue,
        heaviest: got.reduce((most, { payload }) => Math.max(most, payload.length), 0),
        hasCrashSuspect: got.some(this.isCrashSuspect),
        hasLimited: got.some(this.#isLimited),
        sentAt,
        at,
      });
      for (const queue of left) full.add(queue);
    }
    return full;
  }

  /** Whether a claim for this queue's pool, or a search, is worth a round trip now. */
  wants(queue: string, at: number): boolean {
    const pool = this.find(queue);
    if (pool === undefined || !pool.wants(at)) return false;
    return pool.hasQueueToAsk || (pool.isSearched && this.searchInMs(at) === 0);
  }

  /** Whether a share of a limit had no room for the last claim that some pool wanted. Every recorded outcome of the worker makes room in it. */
  get isShareFull(): boolean {
    return this.#pools.some((pool) => pool.isShareFull);
  }

  /** Whether a share that was full has room for a claim now. */
  hasShareRoom(at: number): boolean {
    return this.#pools.some((pool) => pool.isShareFull && pool.wants(at) && pool.hasQueueToAsk);
  }

  /** How long until a search for queues with ready jobs is worth a round trip. */
  searchInMs(at: number): number {
    const { search } = this;
    if (search === undefined) return Infinity;
    const wanting = this.#pools.filter((pool) => pool.isSearched && pool.wants(at));
    return Math.min(...wanting.map((pool) => search.inMs(at, pool.readyQueues)));
  }

  /** Let these jobs wait for a slot of their pools. */
  wait(jobs: readonly LeasedJob[]): void {
    for (const [pool, own] of this.#byPool(jobs, ({ job }) => job.queue)) pool.wait(own);
  }

  /** The pools of these jobs. */
  of(jobs: readonly ClaimedJob[]): Iterable<Pool> {
    return this.#byPool(jobs, ({ queue }) => queue).keys();
  }

  /** Whether there is a slot for each of these jobs, beside every attempt that is not recorded yet. */
  fits(jobs: readonly ClaimedJob[]): boolean {
    const needed = this.#byPool(jobs, ({ queue }) => queue);
    return [...needed].every(([pool, own]) => pool.unrecordedRoom >= own.length);
  }

  /** Take matching jobs off the waiting lists, for the caller to release. */
  releaseWaiting(which: (job: ClaimedJob) => boolean = () => true): ClaimedJob[] {
    return this.#pools.flatMap((pool) => pool.releaseWaiting(which)).map(({ job }) => job);
  }

  /** Drop waiting jobs that the lease thread released. */
  forgetReleased(): void {
    for (const pool of this.#pools) pool.forgetReleased();
  }

  /** This queue may have ready jobs; without a queue, each of them may. True if this worker serves it. */
  mayHaveWork(queue?: string): boolean {
    if (queue !== undefined) {
      const pool = this.find(queue);
      pool?.mayHaveWork(queue);
      return pool !== undefined;
    }
    for (const pool of this.#pools) pool.mayHaveWork();
    this.search?.hint();
    return true;
  }

  #byPool<Item>(items: readonly Item[], queueOf: (item: Item) => string): Map<Pool, Item[]> {
    const byPool = new Map<Pool, Item[]>();
    let last: { readonly queue: string; readonly own: Item[] } | undefined;
    for (const item of items) {
      const queue = queueOf(item);
      if (queue !== last?.queue) {
        const pool = this.find(queue);
        if (pool === undefined) continue;
        last = { queue, own: byPool.get(pool) ?? [] };
        byPool.set(pool, last.own);
      }
      last.own.push(item);
    }
    return byPool;
  }
}
