import type { ClaimedJob } from "../model/job.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import type { Floor } from "../sql/claim.ts";

/** The most queues with floors. A pattern may match any number of queues. */
const mostQueues = 10_000;
/** The most priorities of one queue with floors. */
const mostFloors = 32;
const inUseMs = 1_000;
/** How long every claim of a queue with too many priorities is a sweep. */
const manyMs = 10_000;
/** Claims of fewer jobs than this are compared with one another: their durations hardly depend on the number. */
const fewJobs = 20;
/** A claim from the floors counts for at most this: however slow the server, a sweep of longer is paid for. */
const mostSparedMs = 5;
/** After so many sweeps without a claim from the floors, one measures again how long that takes. */
const measureEvery = 100;

/**
 * Where claims begin. Each queue and priority has a floor: the last job this worker took from it. A claim reads only what comes
 * after the floors. A sweep reads everything, and finds what lies before them: late commits, retries, released jobs, new
 * priorities.
 *
 * Floors pay only while many dead entries lie before them. As long as a sweep of few jobs takes no longer than a claim from the
 * floors, every such claim is a sweep: it misses nothing, and no second claim has to look before the floors.
 */
export class Floors {
  readonly #floors = new Map<string, Map<number, Floor & { usedAt: number }>>();
  /** Per queue: a queue whose slots are rarely free must be swept when one is, however recent the sweeps of others. */
  readonly #sweeps = new Map<string, Sweeps>();
  /** Queues whose last claim was not a sweep. */
  readonly #owed = new Set<string>();
  /** Queues with more priorities in use than floors: every claim of such a queue is a sweep, until then. */
  readonly #manyUntil = new Map<string, number>();
  readonly #excludes: (queue: string) => boolean;
  /** How long a claim of few jobs from the floors takes, on average; 0 until one was measured. */
  #fromFloorsMs = 0;
  #sweptSince = 0;

  /** @param excludes Whether claims skip this queue now; its sweep waits until they ask it again. */
  constructor(excludes: (queue: string) => boolean = () => false) {
    this.#excludes = excludes;
  }

  /** Where the next claim begins; undefined if it should be a sweep. */
  from(queues: readonly string[], at: number): Floor[] | undefined {
    const mayMeasure = this.#fromFloorsMs > 0 && this.#sweptSince >= measureEvery;
    if (!mayMeasure && queues.some((queue) => this.#sweepsOf(queue).inMs(at) === 0)) return undefined;
    if (queues.some((queue) => at < (this.#manyUntil.get(queue) ?? 0))) return undefined;
    return this.#floorsOf(queues);
  }

  #floorsOf(queues: readonly string[]): Floor[] | undefined {
    const floors = queues.flatMap((queue) => [...(this.#floors.get(queue)?.values() ?? [])]);
    return floors.length === 0 ? undefined : floors.sort((a, b) => a.priority - b.priority);
  }

  /** Note what a claim took, in claim order. Of a sweep also its duration, and the queues that may have more. */
  claimed(
    queues: readonly string[],
    jobs: readonly ClaimedJob[],
    at: number,
    sweep?: { sentAt: number; full: ReadonlySet<string> },
  ): void {
    const sparedMs = sweep === undefined || jobs.length >= fewJobs ? 0 : this.#spared(at - sweep.sentAt);
    for (const queue of queues) {
      if (sweep === undefined) this.#owed.add(queue);
      else {
        this.#owed.delete(queue);
        this.#sweepsOf(queue).done(sweep.sentAt, at, sparedMs);
      }
    }
    const note = (job: ClaimedJob): void => this.#note(job, at, sweep?.full.has(job.queue) === true);
    let last: ClaimedJob | undefined;
    for (const job of jobs) {
      if (last !== undefined && (last.queue !== job.queue || last.priority !== job.priority)) note(last);
      last = job;
    }
    if (last !== undefined) note(last);
  }

  /** A claim from the floors returned so many jobs after `tookMs`. */
  measured(tookMs: number, jobs: number): void {
    this.#sweptSince = 0;
    if (jobs >= fewJobs) return;
    const ms = Math.min(tookMs, mostSparedMs);
    this.#fromFloorsMs = this.#fromFloorsMs === 0 ? ms : this.#fromFloorsMs + (ms - this.#fromFloorsMs) * 0.2;
  }

  /** What a sweep of few jobs replaced. It does all that a claim from the floors does, so a quicker one lowers the average. */
  #spared(tookMs: number): number {
    this.#sweptSince += 1;
    if (tookMs < this.#fromFloorsMs) this.#fromFloorsMs += (tookMs - this.#fromFloorsMs) * 0.05;
    return this.#fromFloorsMs;
  }

  /**
   * A sweep that took everything leaves the floors where they are: nothing else lies before them. A sweep that could have taken
   * more lowers them to its last job, so that the next claims continue from there without another sweep.
   */
  #note({ queue, priority, runAt, fence: { job: id } }: ClaimedJob, at: number, lower: boolean): void {
    let floors = this.#floors.get(queue);
    if (floors === undefined) this.#floors.set(queue, (floors = new Map()));
    const floor = floors.get(priority);
    // Reinserted, so that the least recently used one is first.
    floors.delete(priority);
    if (floor !== undefined && !lower && !isBefore(floor, runAt, id))
      floors.set(priority, { ...floor, usedAt: at });
    else floors.set(priority, { queue, priority, runAt, id, usedAt: at });
    if (floors.size > mostFloors) this.#makeRoom(queue, floors, at);
  }

  /** Forget the least recently used priority. If all are in use, floors would hide some of them from most claims. */
  #makeRoom(queue: string, floors: Map<number, { usedAt: number }>, at: number): void {
    for (const [priority, { usedAt }] of floors) {
      if (at - usedAt < inUseMs) this.#manyUntil.set(queue, at + manyMs);
      floors.delete(priority);
      return;
    }
  }

  /** How long until a sweep may look before the floors; undefined if the last claims were sweeps. */
  owedInMs(at: number): number | undefined {
    let soonest: number | undefined;
    for (const queue of this.#owed)
      if (!this.#excludes(queue)) soonest = Math.min(soonest ?? Infinity, this.#sweepsOf(queue).inMs(at));
    return soonest;
  }

  /** Queues whose sweep is due. */
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

  /** A queue without floors is swept, so nothing is missed. */
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

// Timestamps of one connection have one format, and their texts sort by time.
function isBefore(floor: Floor, runAt: string, id: string): boolean {
  return floor.runAt < runAt || (floor.runAt === runAt && floor.id < id);
}
