import type { ClaimedJob } from "../model/job.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import type { Floor } from "../sql/claim.ts";

/** Queues that may have floors: those that match a pattern are without number. */
const mostQueues = 10_000;
/** Priorities of one queue that may have floors. */
const mostFloors = 32;
const inUseMs = 1_000;
/** How long a queue with too many in use is swept. */
const manyMs = 10_000;

/**
 * Where claims begin. Each queue and priority has a floor: the last job this worker took from it. A claim looks at
 * what comes after the floors; a sweep looks at everything, and finds what lies behind them: late commits, retries,
 * jobs that were handed back, priorities not met before.
 */
export class Floors {
  readonly #floors = new Map<string, Map<number, Floor & { usedAt: number }>>();
  /** For each queue by itself: one whose slots are seldom free must be swept when one is, whatever the others had. */
  readonly #sweeps = new Map<string, Sweeps>();
  /** Queues whose last claim was not a sweep. */
  readonly #owed = new Set<string>();
  /** Queues with more priorities in use than are worth a floor each: every claim of them is a sweep, until then. */
  readonly #manyUntil = new Map<string, number>();
  readonly #excludes: (queue: string) => boolean;

  /** @param excludes Whether claims skip this queue now; its sweep waits until they ask it again. */
  constructor(excludes: (queue: string) => boolean = () => false) {
    this.#excludes = excludes;
  }

  /** Where the next claim begins; undefined if it is to be a sweep. */
  from(queues: readonly string[], at: number): Floor[] | undefined {
    if (queues.some((queue) => this.#sweepsOf(queue).inMs(at) === 0)) return undefined;
    if (queues.some((queue) => at < (this.#manyUntil.get(queue) ?? 0))) return undefined;
    const floors = queues.flatMap((queue) => [...(this.#floors.get(queue)?.values() ?? [])]);
    return floors.length === 0 ? undefined : floors.sort((a, b) => a.priority - b.priority);
  }

  /** Note what a claim took, in its order, and, of a sweep, what it cost and in which queues it may have left something. */
  claimed(
    queues: readonly string[],
    jobs: readonly ClaimedJob[],
    at: number,
    sweep?: { sentAt: number; full: ReadonlySet<string> },
  ): void {
    for (const queue of queues) {
      if (sweep === undefined) this.#owed.add(queue);
      else {
        this.#owed.delete(queue);
        this.#sweepsOf(queue).done(sweep.sentAt, at);
      }
    }
    for (const [index, job] of jobs.entries()) {
      const next = jobs[index + 1];
      if (next?.queue === job.queue && next.priority === job.priority) continue;
      this.#note(job, at, sweep?.full.has(job.queue) === true);
    }
  }

  /**
   * A sweep that took all it found, behind the floors, leaves them where they are: nothing else is there. One that could have
   * taken more lowers them to where it came, so that the next claims go on from there and need not wait for a sweep.
   */
  #note({ queue, priority, runAt, fence: { job: id } }: ClaimedJob, at: number, lower: boolean): void {
    let floors = this.#floors.get(queue);
    if (floors === undefined) this.#floors.set(queue, (floors = new Map()));
    const floor = floors.get(priority);
    // Those that were not used for the longest are first.
    floors.delete(priority);
    if (floor !== undefined && !lower && !isBefore(floor, runAt, id))
      floors.set(priority, { ...floor, usedAt: at });
    else floors.set(priority, { queue, priority, runAt, id, usedAt: at });
    if (floors.size > mostFloors) this.#makeRoom(queue, floors, at);
  }

  /** A priority that was used once is forgotten. If all are in use, floors would hide some of them from most claims. */
  #makeRoom(queue: string, floors: Map<number, { usedAt: number }>, at: number): void {
    for (const [priority, { usedAt }] of floors) {
      if (at - usedAt < inUseMs) this.#manyUntil.set(queue, at + manyMs);
      floors.delete(priority);
      return;
    }
  }

  /** How long until something may be found that lies behind a floor; undefined if the last claims were sweeps. */
  owedInMs(at: number): number | undefined {
    let soonest: number | undefined;
    for (const queue of this.#owed)
      if (!this.#excludes(queue)) soonest = Math.min(soonest ?? Infinity, this.#sweepsOf(queue).inMs(at));
    return soonest;
  }

  /** Queues in which a sweep is due. */
  owed(at: number): string[] {
    return [...this.#owed].filter((queue) => !this.#excludes(queue) && this.#sweepsOf(queue).inMs(at) === 0);
  }

  #sweepsOf(queue: string): Sweeps {
    let sweeps = this.#sweeps.get(queue);
    if (sweeps === undefined) {
      this.#sweeps.set(queue, (sweeps = new Sweeps()));
      if (this.#sweeps.size > mostQueues) this.#forgetFirst();
    }
    return sweeps;
  }

  /** A queue without floors is swept, so that nothing is missed by this. */
  #forgetFirst(): void {
    for (const queue of this.#sweeps.keys()) {
      this.#sweeps.delete(queue);
      this.#floors.delete(queue);
      this.#owed.delete(queue);
      this.#manyUntil.delete(queue);
      return;
    }
  }
}

// Times of one connection are written alike, and their texts sort as they do.
function isBefore(floor: Floor, runAt: string, id: string): boolean {
  return floor.runAt < runAt || (floor.runAt === runAt && floor.id < id);
}
