import type { ClaimedJob } from "../model/job.ts";
import type { PoolView } from "../signals/process-metrics.ts";
import type { Take } from "../sql/claim.ts";
import { byClaimOrder } from "../sql/rows.ts";
import type { HeldJob } from "./held.ts";
import type { Pool } from "./options.ts";
import { Pace } from "./pace.ts";

/** One pool as it stands: attempts in its slots, and jobs claimed ahead that wait for one, whose turn it is first. */
type PoolState = {
  readonly pool: Pool;
  readonly pace: Pace;
  running: number;
  /** Begun and not yet recorded. More than run: a slot is free before its outcome is on record. */
  unrecorded: number;
  waiting: HeldJob[];
  calmUntil: number;
};

/** What one claim may bring, beyond the free slots. */
const largestClaim = 1_000;
/** How long a pool claims nothing ahead after it met a fragile job. */
const calmMs = 1_000;

/** Places for running attempts, by pool, what waits for them, and what is known of each queue. */
export class Slots {
  readonly isFragile: (job: ClaimedJob) => boolean;
  readonly #pools: readonly PoolState[];
  readonly #poolOf = new Map<string, PoolState>();
  readonly #prefetches: boolean;
  /** Queues whose last claim came back short. They are left alone until a wake or a poll says otherwise. */
  readonly #dry = new Set<string>();
  /** Queues that were spoken of since the last claim was sent: its answer may be older than the news. */
  readonly #news = new Set<string>();

  /**
   * @param isFragile Whether a crash, its own or not, could be the job's last. Such jobs never wait here.
   * @param prefetches Whether pools may claim more jobs than they have free slots.
   */
  constructor(
    pools: readonly Pool[],
    isFragile: (job: ClaimedJob) => boolean = ({ crashes }) => crashes > 0,
    prefetches = true,
  ) {
    this.#prefetches = prefetches;
    this.isFragile = isFragile;
    this.#pools = pools.map((pool) => ({
      pool,
      pace: new Pace(pool.slots),
      running: 0,
      unrecorded: 0,
      waiting: [],
      calmUntil: 0,
    }));
    for (const state of this.#pools) for (const queue of state.pool.queues) this.#poolOf.set(queue, state);
  }

  get queues(): readonly string[] {
    return [...this.#poolOf.keys()];
  }

  /** Each pool as it stands. */
  get pools(): readonly PoolView[] {
    return this.#pools.map(({ pool: { name, slots }, running, waiting }) => ({
      pool: name,
      slots,
      busy: running,
      waiting: waiting.length,
    }));
  }

  /** Whether this worker takes jobs of this queue. */
  serves(queue: string): boolean {
    return this.#poolOf.has(queue);
  }

  /** How many jobs are here: in a slot, waiting for one, or not recorded yet. */
  get busy(): number {
    const here = ({ running, unrecorded, waiting }: PoolState): number =>
      Math.max(running, unrecorded) + waiting.length;
    return this.#pools.reduce((sum, state) => sum + here(state), 0);
  }

  /** No room anywhere: a wake could not be followed. */
  get saturated(): boolean {
    return this.#pools.every((state) => roomIn(state) <= 0);
  }

  /**
   * What to ask the next claim for. Of a pool with several queues only the first that is not dry is asked, in the
   * order they are listed, so that together they never bring more than the pool has room for.
   */
  takes(at: number): Take[] {
    const takes: Take[] = [];
    this.#news.clear();
    for (const state of this.#pools) {
      if (!isCalm(state, at)) state.calmUntil = 0;
      const queue = this.#wetQueue(state);
      if (queue === undefined || !this.#wants(state, at)) continue;
      const room = isCalm(state, at) ? calmRoomIn(state) : roomIn(state);
      takes.push({ queue, limit: Math.min(room + this.#aheadOf(state, at), Math.max(room, largestClaim)) });
    }
    return takes;
  }

  /** Note how a claim went, and how long it took. Answers the queues of which it brought as many as it was to. */
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
      if (this.isFragile(job)) state.calmUntil = at + calmMs;
    }
    const full = new Set<string>();
    for (const { queue, limit } of takes) {
      const state = this.#poolOf.get(queue);
      state?.pace.measure(at, heaviest.get(state) ?? 0, at - sentAt);
      if ((got.get(queue) ?? 0) >= limit) full.add(queue);
      else if (!this.#news.has(queue)) this.#dry.add(queue);
    }
    return full;
  }

  /** Whether a claim is worth while for this queue's pool now. */
  wants(queue: string, at: number): boolean {
    const state = this.#poolOf.get(queue);
    return state !== undefined && this.#wetQueue(state) !== undefined && this.#wants(state, at);
  }

  /** Let these jobs wait for a slot. */
  wait(jobs: readonly HeldJob[]): void {
    const touched = new Set<PoolState>();
    for (const entry of jobs) {
      const state = this.#poolOf.get(entry.job.queue);
      if (state === undefined) continue;
      const last = state.waiting.at(-1);
      if (last !== undefined && inTurn(state, last, entry) > 0) touched.add(state);
      state.waiting.push(entry);
    }
    for (const state of touched) state.waiting.sort((a, b) => inTurn(state, a, b));
  }

  /** The next job of this queue's pool that waits, if there is a slot for it, which it takes. */
  next(queue: string): HeldJob | undefined {
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
      state.pace.reset();
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
    state.pace.ended(tookMs);
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
  withdraw(which: (job: ClaimedJob) => boolean = () => true): HeldJob[] {
    const withdrawn: HeldJob[] = [];
    for (const state of this.#pools) {
      const going = state.waiting.filter((entry) => which(entry.job));
      if (going.length === 0) continue;
      state.waiting = state.waiting.filter((entry) => !which(entry.job));
      for (const entry of going) {
        if (entry.held.withdraw(entry.index)) withdrawn.push(entry);
        entry.held.left();
      }
    }
    return withdrawn;
  }

  /** Some of those that waited were handed back by the lease thread: whoever was this quick is so no longer. */
  forgetHandedBack(): void {
    for (const state of this.#pools) {
      const staying = state.waiting.filter((entry) => !entry.held.isHandedBack(entry.index));
      if (staying.length === state.waiting.length) continue;
      for (const entry of state.waiting) if (entry.held.isHandedBack(entry.index)) entry.held.left();
      state.waiting = staying;
      state.pace.reset();
    }
  }

  /** There may be work again. True if it concerns this worker. */
  wet(queue?: string): boolean {
    const queues = queue === undefined ? this.queues : this.serves(queue) ? [queue] : [];
    for (const name of queues) {
      this.#dry.delete(name);
      this.#news.add(name);
    }
    return queues.length > 0;
  }

  #wetQueue({ pool }: PoolState): string | undefined {
    return pool.queues.find((name) => !this.#dry.has(name));
  }

  /** Not for every job that ends, where many do: a claim for half of what is wanted costs little more than one for a single job. */
  #wants(state: PoolState, at: number): boolean {
    if (isCalm(state, at)) return calmRoomIn(state) > 0;
    const ahead = this.#aheadOf(state, at);
    return ahead === 0 ? roomIn(state) > 0 : state.waiting.length <= ahead / 2;
  }

  #aheadOf(state: PoolState, at: number): number {
    return !this.#prefetches || isCalm(state, at) ? 0 : state.pace.ahead;
  }
}

/** Queues as their pool lists them, then the order of the claim. */
function inTurn({ pool: { queues } }: PoolState, { job: a }: HeldJob, { job: b }: HeldJob): number {
  return a.queue === b.queue ? byClaimOrder(a, b) : queues.indexOf(a.queue) - queues.indexOf(b.queue);
}

/** Slots that nothing runs in and nothing waits for. Less than none while jobs wait. */
function roomIn({ pool, running, waiting }: PoolState): number {
  return pool.slots - running - waiting.length;
}

/** After a crash no more is here than has a slot, begun or not, recorded or not: whatever is when its worker dies counts a crash. */
function isCalm({ calmUntil }: PoolState, at: number): boolean {
  return at < calmUntil;
}

function calmRoomIn({ pool, unrecorded, waiting }: PoolState): number {
  return pool.slots - unrecorded - waiting.length;
}
