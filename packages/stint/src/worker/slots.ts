import type { ClaimedJob } from "../model/job.ts";
import { isPattern } from "../model/name-pattern.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import type { PoolView } from "../telemetry/process-metrics.ts";
import type { Take } from "../sql/claim.ts";
import type { QueueRange } from "../sql/ready-queues.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { Pool } from "./options.ts";
import { Prefetch } from "./prefetch.ts";
import { QueueSearch } from "./queue-search.ts";
import { maxQueuesPerClaim, QueueTurns } from "./queue-turns.ts";
import { WaitingList } from "./waiting-list.ts";

/** One pool as it stands: attempts in its slots, jobs claimed ahead that wait for one, and whose turn it is to be asked. */
type PoolState = {
  readonly pool: Pool;
  readonly prefetch: Prefetch;
  readonly turns: QueueTurns;
  /** Whether its queues with ready jobs are searched for, because they are too many to be asked. */
  readonly isSearched: boolean;
  running: number;
  /** Begun and not yet recorded. More than run: a slot is free before its outcome is on record. */
  unrecorded: number;
  readonly waiting: WaitingList;
  calmUntil: number;
};

/** What one claim may bring, beyond the free slots. */
const largestClaim = 1_000;
/** How long a pool claims nothing ahead after it met a fragile job. */
const calmMs = 1_000;

/** Places for running attempts, by pool, what waits for them, and what is known of each queue. */
export class Slots {
  readonly isCrashSuspect: (job: ClaimedJob) => boolean;
  /** The search for queues with ready jobs, if some pool needs it. */
  readonly search: QueueSearch | undefined;
  readonly #pools: readonly PoolState[];
  readonly #poolOf: QueueMap<PoolState>;
  readonly #prefetches: boolean;

  /**
   * @param isCrashSuspect Whether a crash, its own or not, could be the job's last. Such jobs never wait here.
   * @param prefetches Whether pools may claim more jobs than they have free slots.
   */
  constructor(
    pools: readonly Pool[],
    isCrashSuspect: (job: ClaimedJob) => boolean = ({ crashes }) => crashes > 0,
    prefetches = true,
  ) {
    this.#prefetches = prefetches;
    this.isCrashSuspect = isCrashSuspect;
    this.#pools = pools.map((pool) => {
      const isSearched = pool.queues.length > maxQueuesPerClaim || pool.queues.some(isPattern);
      return {
        pool,
        prefetch: new Prefetch(pool.slots),
        turns: new QueueTurns(isSearched ? undefined : pool.queues),
        isSearched,
        running: 0,
        unrecorded: 0,
        waiting: new WaitingList(),
        calmUntil: 0,
      };
    });
    this.#poolOf = new QueueMap(
      this.#pools.flatMap((state) => state.pool.queues.map((queue) => [queue, state] as const)),
    );
    const searched = this.#pools.filter(({ isSearched }) => isSearched).flatMap(({ pool }) => pool.queues);
    this.search = searched.length === 0 ? undefined : new QueueSearch(searched);
  }

  /** The queues this worker serves: names, and patterns. */
  get queues(): readonly string[] {
    return this.#pools.flatMap(({ pool }) => pool.queues);
  }

  /** Those of the pools that are asked whole. */
  get askedQueues(): readonly string[] {
    return this.#pools.flatMap(({ pool, isSearched }) => (isSearched ? [] : pool.queues));
  }

  /** Where the queues of the pools that are searched are; nowhere while none of these has room. */
  get searched(): { readonly ranges: readonly QueueRange[]; readonly serves: (queue: string) => boolean } {
    const hasRoom = this.#pools.some((state) => state.isSearched && roomIn(state) > 0);
    return { ranges: hasRoom ? (this.search?.ranges ?? []) : [], serves: (queue) => this.serves(queue) };
  }

  /** Each pool as it stands. */
  get pools(): readonly PoolView[] {
    return this.#pools.map(({ pool: { name, slots }, running, waiting }) => ({
      pool: name,
      slots,
      busy: running,
      waiting: waiting.size,
    }));
  }

  /** Whether this worker takes jobs of this queue. */
  serves(queue: string): boolean {
    return this.#poolOf.has(queue);
  }

  /** How many jobs are here: in a slot, waiting for one, or not recorded yet. */
  get busy(): number {
    const here = ({ running, unrecorded, waiting }: PoolState): number =>
      Math.max(running, unrecorded) + waiting.size;
    return this.#pools.reduce((sum, state) => sum + here(state), 0);
  }

  /** No room anywhere: a wake could not be followed. */
  get saturated(): boolean {
    return this.#pools.every((state) => roomIn(state) <= 0);
  }

  /** What to ask the next claim for: of each pool with room, the queues whose turn it is. */
  takes(at: number): Take[] {
    return this.#pools.flatMap((state) => {
      if (!isCalm(state, at)) state.calmUntil = 0;
      if (state.turns.size === 0 || !this.#wants(state, at)) return [];
      const room = isCalm(state, at) ? calmRoomIn(state) : roomIn(state);
      return state.turns.takes(Math.min(room + this.#aheadOf(state, at), Math.max(room, largestClaim)), at);
    });
  }

  /** Note how a claim went, and how long it took. Returns the queues that may have more. */
  claimed(
    takes: readonly Take[],
    jobs: readonly ClaimedJob[],
    { sentAt, at }: { sentAt: number; at: number },
  ): Set<string> {
    const got = new Map<string, number>();
    const heaviest = new Map<PoolState, number>();
    for (const job of jobs) {
      got.set(job.queue, (got.get(job.queue) ?? 0) + 1);
      const state = this.#poolOf.get(job.queue);
      if (state === undefined) continue;
      heaviest.set(state, Math.max(heaviest.get(state) ?? 0, job.weight));
      if (this.isCrashSuspect(job)) state.calmUntil = at + calmMs;
    }
    const asked = new Map<PoolState, Take[]>();
    for (const take of takes) {
      const state = this.#poolOf.get(take.queue);
      if (state === undefined) continue;
      const own = asked.get(state);
      if (own === undefined) asked.set(state, [take]);
      else own.push(take);
    }
    const full = new Set<string>();
    for (const [state, own] of asked) {
      state.prefetch.measure(at, heaviest.get(state) ?? 0, at - sentAt);
      for (const queue of state.turns.claimed(own, got, at)) full.add(queue);
    }
    return full;
  }

  /** Whether queues are in line that the last claim did not come to. */
  get isUnasked(): boolean {
    return this.#pools.some(({ turns }) => turns.isUnasked);
  }

  /** Whether a claim is worth while for this queue's pool now, or a search. */
  wants(queue: string, at: number): boolean {
    const state = this.#poolOf.get(queue);
    if (state === undefined || !this.#wants(state, at)) return false;
    return state.turns.size > 0 || (state.isSearched && this.searchInMs(at) === 0);
  }

  /** How long until a search for queues with ready jobs is worth while. */
  searchInMs(at: number): number {
    const { search } = this;
    if (search === undefined) return Infinity;
    const roomy = this.#pools.filter((state) => state.isSearched && this.#wants(state, at));
    return Math.min(...roomy.map(({ turns }) => search.inMs(at, turns.size)));
  }

  /** Let these jobs wait for a slot. */
  wait(jobs: readonly LeasedJob[]): void {
    const byPool = new Map<PoolState, LeasedJob[]>();
    for (const entry of jobs) {
      const state = this.#poolOf.get(entry.job.queue);
      if (state === undefined) continue;
      const own = byPool.get(state);
      if (own === undefined) byPool.set(state, [entry]);
      else own.push(entry);
    }
    for (const [state, own] of byPool) state.waiting.add(own);
  }

  /** The next job of this queue's pool that waits, if there is a slot for it, which it takes. */
  next(queue: string): LeasedJob | undefined {
    const state = this.#poolOf.get(queue);
    if (state === undefined) return undefined;
    while (state.running < state.pool.slots) {
      const entry = state.waiting.shift();
      if (entry === undefined) return undefined;
      if (entry.held.begin(entry.index)) {
        state.running += 1;
        state.unrecorded += 1;
        return entry;
      }
      entry.held.left();
      state.prefetch.reset();
    }
    return undefined;
  }

  /** Whether there is a slot for each of these jobs, and for what is not recorded yet. */
  fits(jobs: readonly ClaimedJob[]): boolean {
    const left = new Map<PoolState, number>();
    for (const { queue } of jobs) {
      const state = this.#poolOf.get(queue);
      if (state !== undefined) left.set(state, (left.get(state) ?? calmRoomIn(state)) - 1);
    }
    return [...left.values()].every((room) => room >= 0);
  }

  /** A job that does not wait takes a slot. */
  take(queue: string): void {
    const state = this.#poolOf.get(queue);
    if (state === undefined) return;
    state.running += 1;
    state.unrecorded += 1;
  }

  /** A slot is free again, after a handler that took so long. */
  free(queue: string, tookMs: number): void {
    const state = this.#poolOf.get(queue);
    if (state === undefined) return;
    state.running -= 1;
    state.prefetch.ended(tookMs);
  }

  /** The outcome of a job that began is on record, or nobody's business here any more. */
  recorded(queue: string): void {
    const state = this.#poolOf.get(queue);
    if (state !== undefined) state.unrecorded -= 1;
  }

  /** Whether this queue's pool has room only once outcomes are on record. */
  countsRecords(queue: string): boolean {
    return (this.#poolOf.get(queue)?.calmUntil ?? 0) > 0;
  }

  /** A slot is free again that nothing ran in. */
  giveUp(queue: string): void {
    const state = this.#poolOf.get(queue);
    if (state === undefined) return;
    state.running -= 1;
    state.unrecorded -= 1;
  }

  /** Take waiting jobs away, to give them back. */
  withdraw(which: (job: ClaimedJob) => boolean = () => true): LeasedJob[] {
    const withdrawn: LeasedJob[] = [];
    for (const state of this.#pools) {
      for (const entry of state.waiting.remove(({ job }) => which(job))) {
        if (entry.held.withdraw(entry.index)) withdrawn.push(entry);
        entry.held.left();
      }
    }
    return withdrawn;
  }

  /** Some of those that waited were handed back by the lease thread: whoever was this quick is so no longer. */
  forgetReleased(): void {
    for (const state of this.#pools) {
      const gone = state.waiting.remove(({ held, index }) => held.isReleased(index));
      if (gone.length === 0) continue;
      for (const { held } of gone) held.left();
      state.prefetch.reset();
    }
  }

  /** There may be work again, in this queue or in any. True if it concerns this worker. */
  mayHaveWork(queue?: string): boolean {
    if (queue !== undefined) {
      const state = this.#poolOf.get(queue);
      state?.turns.hint(queue);
      return state !== undefined;
    }
    for (const { turns } of this.#pools) turns.hintAll();
    this.search?.hint();
    return true;
  }

  /** Not for every job that ends, where many do: a claim for half of what is wanted costs little more than one for a single job. */
  #wants(state: PoolState, at: number): boolean {
    if (isCalm(state, at)) return calmRoomIn(state) > 0;
    const ahead = this.#aheadOf(state, at);
    return ahead === 0 ? roomIn(state) > 0 : state.waiting.size <= ahead / 2;
  }

  #aheadOf(state: PoolState, at: number): number {
    return !this.#prefetches || isCalm(state, at) ? 0 : state.prefetch.ahead;
  }
}

/** Slots that nothing runs in and nothing waits for. Less than none while jobs wait. */
function roomIn({ pool, running, waiting }: PoolState): number {
  return pool.slots - running - waiting.size;
}

/** After a crash no more is here than has a slot, begun or not, recorded or not: whatever is when its worker dies counts a crash. */
function isCalm({ calmUntil }: PoolState, at: number): boolean {
  return at < calmUntil;
}

function calmRoomIn({ pool, unrecorded, waiting }: PoolState): number {
  return pool.slots - unrecorded - waiting.size;
}
