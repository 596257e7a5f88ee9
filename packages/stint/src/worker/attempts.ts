import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Attempt } from "./attempt.ts";

/** Outcomes that may wait to be recorded before no more jobs are claimed: two full statements. */
const maxUnrecorded = 2_000;

/** The attempts of one worker, from begun to forgotten. */
export class Attempts {
  /** By `attempt.place`. Not a Set, see `add`. */
  readonly #all: (Attempt | undefined)[] = [];
  readonly #free: number[] = [];
  /** Recorded, but their handlers keep running. */
  readonly #stuck = new Set<Attempt>();
  readonly #closedWaiters = new Map<Attempt, () => void>();
  #idleWaiters: (() => void)[] = [];
  /** How many outcomes are on their way to the database. */
  unrecorded = 0;
  /** How many attempts were recorded since the start: those that ended, and those that were released. */
  ended = 0;
  released = 0;

  *[Symbol.iterator](): Generator<Attempt> {
    for (const attempt of this.#all) if (attempt !== undefined) yield attempt;
  }

  get size(): number {
    return this.#all.length - this.#free.length;
  }

  /** How many handlers keep running although their signals have aborted and their outcomes are recorded. */
  get stuck(): number {
    return this.#stuck.size;
  }

  /** Whether so many outcomes wait to be recorded that nothing more should be claimed. */
  get isBehind(): boolean {
    return this.unrecorded >= maxUnrecorded;
  }

  find({ job, leaseId }: Fence): Attempt | undefined {
    for (const attempt of this) {
      const { fence } = attempt.job;
      if (fence.job === job && fence.leaseId === leaseId) return attempt;
    }
    return undefined;
  }

  /** The jobs whose outcomes are not known yet. */
  get open(): ClaimedJob[] {
    return [...this].filter(({ record }) => record === "open").map(({ job }) => job);
  }

  /** Those that wait for others of their batch. */
  gathering(which: (job: ClaimedJob) => boolean): Attempt[] {
    return [...this].filter(({ call, job }) => call.isGathering && which(job));
  }

  /**
   * A Set would allocate a new table every few thousand jobs. If the garbage collector has moved the last one to the old generation, that keeps
   * its attempts until the next full collection: each young collection then takes twice as long.
   */
  add(attempt: Attempt): void {
    attempt.place = this.#free.pop() ?? this.#all.length;
    this.#all[attempt.place] = attempt;
  }

  addStuck(attempt: Attempt): void {
    this.#stuck.add(attempt);
  }

  /** Resolves when this attempt is recorded, or released. */
  async closed(attempt: Attempt): Promise<void> {
    if (this.#has(attempt))
      await new Promise<void>((resolve) => void this.#closedWaiters.set(attempt, resolve));
  }

  /** It is recorded, or released. */
  close(attempt: Attempt): void {
    this.#closedWaiters.get(attempt)?.();
    this.#closedWaiters.delete(attempt);
  }

  /** It is recorded and its handler has ended. */
  delete(attempt: Attempt): void {
    if (!this.#has(attempt)) return;
    this.#all[attempt.place] = undefined;
    this.#free.push(attempt.place);
    this.#stuck.delete(attempt);
    if (this.size > 0) return;
    for (const resolve of this.#idleWaiters) resolve();
    this.#idleWaiters = [];
  }

  /** Resolves when there are none. */
  async idle(): Promise<void> {
    if (this.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  #has(attempt: Attempt): boolean {
    return this.#all[attempt.place] === attempt;
  }
}
