import { isPattern } from "../model/name-pattern.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { PoolView } from "../telemetry/process-metrics.ts";
import type { Take } from "../sql/claim.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { PoolOptions, PoolReserve } from "./options.ts";
import { mostAhead, Prefetch } from "./prefetch.ts";
import { maxQueuesPerClaim, QueueTurns } from "./queue-turns.ts";
import { WaitingList } from "./waiting-list.ts";

/** The most jobs one claim asks for, unless the pool has more free slots. */
const maxClaim = 1_000;
/** How long a pool prefetches nothing after a claim returned a crash suspect or a job that needs places, and less after a job under a limit. */
const noPrefetchMs = 1_000;

export type PoolRules = {
  /** Whether the pool may claim more jobs than it has free slots. */
  readonly prefetches: boolean;
  /** Whether claims skip this queue now. */
  readonly excludes: (queue: string) => boolean;
  /** Whether tenants take turns in this queue. */
  readonly isFair?: (queue: string) => boolean;
  /** Of jobs under a limit: how many the pool may claim beyond its slots, and how many the worker may claim now. */
  readonly limited: { readonly ahead: number; readonly room: number };
};

/** What one claim returned for one pool. */
export type PoolClaim = {
  readonly takes: readonly Take[];
  readonly jobsByQueue: ReadonlyMap<string, number>;
  /** The length of the longest payload, and whether one of the jobs is a crash suspect, or under a limit. */
  readonly heaviest: number;
  readonly hasCrashSuspect: boolean;
  readonly hasLimited: boolean;
  readonly sentAt: number;
  readonly at: number;
};

/** The slots of one pool, the claimed jobs that wait for one of them, and what the pool asks the next claim for. */
export class Pool {
  readonly options: PoolOptions;
  /** Whether ready queues are searched for, because the pool has a pattern or more queues than a claim asks. */
  readonly isSearched: boolean;
  readonly #rules: PoolRules;
  readonly #turns: QueueTurns;
  /** Of urgent jobs, in a pool with a reserve: a queue without urgent jobs may have others. */
  readonly #urgentTurns: QueueTurns | undefined;
  readonly #prefetch: Prefetch;
  readonly #waiting: WaitingList;
  /** May be changed while the worker runs. */
  #slots: number;
  #running = 0;
  /** Begun and not yet recorded. May exceed the running jobs: a slot is free before its outcome is recorded. */
  #unrecorded = 0;
  /** Until when claims are held back, and why: crash suspects, jobs under a limit, jobs that take places of their own. */
  readonly #until = { noPrefetch: 0, limited: 0, places: 0 };
  #isShareFull = false;

  constructor(options: PoolOptions, rules: PoolRules) {
    const { queues, slots } = options;
    this.options = options;
    this.#rules = rules;
    this.isSearched = queues.length > maxQueuesPerClaim || queues.some(isPattern);
    this.#waiting = new WaitingList(rules.isFair);
    this.#slots = slots;
    this.#prefetch = new Prefetch(slots);
    const makeTurns = (): QueueTurns => new QueueTurns(this.isSearched ? undefined : queues, rules.excludes);
    this.#turns = makeTurns();
    this.#urgentTurns = options.reserve === undefined ? undefined : makeTurns();
  }

  get view(): PoolView {
    return { pool: this.options.name, slots: this.#slots, busy: this.#running, waiting: this.#waiting.size };
  }

  /** How many jobs are here: running, waiting for a slot, or not recorded yet. */
  get busy(): number {
    return Math.max(this.#running, this.#unrecorded) + this.#waiting.size;
  }

  /** Slots that are free and that no waiting job needs. Negative while more jobs wait than slots are free. */
  get room(): number {
    return this.#slots - this.#running - this.#waiting.size;
  }

  /** The same, but an attempt keeps its slot until its outcome is recorded. */
  get unrecordedRoom(): number {
    return this.#slots - this.#unrecorded - this.#waiting.size;
  }

  get slots(): number {
    return this.#slots;
  }

  /** Running attempts keep their slots: with fewer slots, none begins until enough have ended. */
  setSlots(slots: number): void {
    this.#slots = slots;
    this.#prefetch.setSlots(slots);
  }

  /** How many queues may have ready jobs. */
  get readyQueues(): number {
    return this.#nextTurns.size;
  }

  /** Whether the last claim ended before it came to some queue that may have ready jobs. */
  get isUnasked(): boolean {
    return this.#nextTurns.isUnasked;
  }

  /** Whether so many jobs wait that no claim is wanted, whatever the prefetch is. Every job that ends asks for it first. */
  get isStocked(): boolean {
    return this.#waiting.size > mostAhead / 2;
  }

  /**
   * Whether a claim is worth a round trip. While the pool prefetches, not for every job that ends: a claim for half of the
   * prefetch costs little more than one for a single job.
   */
  wants(at: number): boolean {
    const ahead = this.#ahead(at);
    this.#isShareFull = this.#isLimited(at) && this.#rules.limited.room <= ahead / 2;
    if (this.#isShareFull) return false;
    if (this.#isPrefetchOff(at)) return this.unrecordedRoom > 0;
    return ahead === 0 ? this.room > 0 : this.#waiting.size <= ahead / 2;
  }

  /** Whether some queue that may have ready jobs can be asked now. */
  get hasQueueToAsk(): boolean {
    return this.#nextTurns.hasNext;
  }

  /** What to ask the next claim for: free slots plus prefetch, spread over the queues whose turn it is. */
  takes(at: number): Take[] {
    if (!this.#isPrefetchOff(at)) this.#until.noPrefetch = 0;
    if (!this.hasQueueToAsk || !this.wants(at)) return [];
    const room = this.#isPrefetchOff(at) ? this.unrecordedRoom : this.room;
    const most = this.#isLimited(at) ? this.#rules.limited.room : Infinity;
    const { reserve } = this.options;
    if (reserve !== undefined) return this.#takesWithReserve(room, reserve, most, at);
    return this.#turns.takes(Math.min(room + this.#ahead(at), Math.max(room, maxClaim), most), at);
  }

  /** Prefetched jobs would wait for the reserved slots, so there are none. */
  #takesWithReserve(room: number, reserve: PoolReserve, most: number, at: number): Take[] {
    if (this.isReserveLeft) {
      const takes = this.#nextTurns.takes(Math.min(room, most), at);
      return takes.map((take) => Object.assign(take, { mostPriority: reserve.priority }));
    }
    return room > reserve.slots ? this.#turns.takes(Math.min(room - reserve.slots, most), at) : [];
  }

  /** Whether no slots but the reserved ones are free. */
  get isReserveLeft(): boolean {
    const { reserve } = this.options;
    return reserve !== undefined && this.room <= reserve.slots;
  }

  get #nextTurns(): QueueTurns {
    return this.isReserveLeft ? (this.#urgentTurns ?? this.#turns) : this.#turns;
  }

  /** Note what a claim returned. Returns the queues that may have more. */
  claimed({ takes, jobsByQueue, heaviest, hasCrashSuspect, hasLimited, sentAt, at }: PoolClaim): string[] {
    if (hasLimited) this.#until.limited = at + noPrefetchMs;
    if (hasCrashSuspect) this.#until.noPrefetch = at + noPrefetchMs;
    this.#prefetch.measure(at, heaviest, at - sentAt);
    const turns = takes[0]?.mostPriority === undefined ? this.#turns : (this.#urgentTurns ?? this.#turns);
    return turns.claimed(takes, jobsByQueue, at);
  }

  /** Jobs of the pool take places of their own: claim no job ahead for a while. */
  needsPlaces(at: number): void {
    this.#until.places = at + noPrefetchMs;
  }

  /** This queue may have ready jobs; without a queue, each of them may. */
  mayHaveWork(queue?: string): void {
    for (const turns of [this.#turns, this.#urgentTurns]) {
      if (queue === undefined) turns?.hintAll();
      else turns?.hint(queue);
    }
  }

  /** Let these jobs wait for a slot. */
  wait(jobs: readonly LeasedJob[]): void {
    this.#waiting.add(jobs);
  }

  /** The next waiting job, if a slot is free; it takes the slot. Jobs that the lease thread released are dropped. */
  next(): LeasedJob | undefined {
    while (this.#running < this.#slots) {
      const leased = this.#waiting.shift();
      if (leased === undefined) return undefined;
      if (leased.leases.begin(leased.index)) {
        this.takeSlot();
        return leased;
      }
      leased.leases.forget();
      this.#prefetch.reset();
    }
    return undefined;
  }

  takeSlot(): void {
    this.#running += 1;
    this.#unrecorded += 1;
  }

  /** A handler ended after so long, and its slot is free. */
  freeSlot(tookMs: number): void {
    this.#running -= 1;
    this.#prefetch.ended(tookMs);
  }

  /** The outcome of an attempt is recorded, or another worker owns its job. */
  recorded(): void {
    this.#unrecorded -= 1;
  }

  /** Whether recording an outcome makes room, and not only the end of a handler. */
  get countsUnrecorded(): boolean {
    return this.#until.noPrefetch > 0;
  }

  /** Whether the share of a limit had no room for the last claim that the pool wanted. */
  get isShareFull(): boolean {
    return this.#isShareFull;
  }

  /** Take matching jobs off the waiting list, for the caller to release. Leaves out those the lease thread released. */
  releaseWaiting(which: (job: ClaimedJob) => boolean): LeasedJob[] {
    const taken = this.#waiting.remove(({ job }) => which(job));
    const toRelease = taken.filter(({ leases, index }) => leases.release(index));
    for (const { leases } of taken) leases.forget();
    return toRelease;
  }

  /** Drop waiting jobs that the lease thread released. Their wait shows that the pool is slower than it was. */
  forgetReleased(): void {
    const released = this.#waiting.remove(({ leases, index }) => leases.isReleased(index));
    if (released.length === 0) return;
    for (const { leases } of released) leases.forget();
    this.#prefetch.reset();
  }

  /** If this worker dies, every job here counts a crash. Next to a crash suspect, hold no more jobs than there are slots. */
  #isPrefetchOff(at: number): boolean {
    return at < this.#until.noPrefetch;
  }

  #ahead(at: number): number {
    const isOff =
      !this.#rules.prefetches ||
      this.options.reserve !== undefined ||
      this.#isPrefetchOff(at) ||
      at < this.#until.places;
    if (isOff) return 0;
    const { ahead } = this.#prefetch;
    return this.#isLimited(at) ? Math.min(ahead, this.#rules.limited.ahead) : ahead;
  }

  /** Whether the last claims returned jobs under a limit. */
  #isLimited(at: number): boolean {
    return at < this.#until.limited;
  }
}
