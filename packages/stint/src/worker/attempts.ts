import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Attempt } from "./attempt.ts";

/** Outcomes that may wait to be recorded before no more jobs are claimed: two full statements. */
const maxUnrecorded = 2_000;

/** The attempts of one worker, from begun to forgotten. */
export class Attempts {
  readonly #all = new Set<Attempt>();
  /** Recorded, but their handlers keep running. */
  readonly #stuck = new Set<Attempt>();
  readonly #closedWaiters = new Map<Attempt, () => void>();
  #idleWaiters: (() => void)[] = [];
  /** How many outcomes are on their way to the database. */
  unrecorded = 0;
  /** How many attempts were recorded since the start: those that ended, and those that were released. */
  ended = 0;
  released = 0;

  [Symbol.iterator](): Iterator<Attempt> {
    return this.#all[Symbol.iterator]();
  }

  get size(): number {
    return this.#all.size;
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
    for (const attempt of this.#all) {
      const { fence } = attempt.job;
      if (fence.job === job && fence.leaseId === leaseId) return attempt;
    }
    return undefined;
  }

  /** The jobs whose outcomes are not known yet. */
  get open(): ClaimedJob[] {
    return [...this.#all].filter(({ record }) => record === "open").map(({ job }) => job);
  }

  /** Those that wait for others of their batch. */
  gathering(which: (job: ClaimedJob) => boolean): Attempt[] {
    return [...this.#all].filter(({ call, job }) => call.isGathering && which(job));
  }

  add(attempt: Attempt): void {
    this.#all.add(attempt);
  }

  addStuck(attempt: Attempt): void {
    this.#stuck.add(attempt);
  }

  /** Resolves when this attempt is recorded, or released. */
  async closed(attempt: Attempt): Promise<void> {
    if (this.#all.has(attempt))
      await new Promise<void>((resolve) => void this.#closedWaiters.set(attempt, resolve));
  }

  /** It is recorded, or released. */
  close(attempt: Attempt): void {
    this.#closedWaiters.get(attempt)?.();
    this.#closedWaiters.delete(attempt);
  }

  /** It is recorded and its handler has ended. */
  delete(attempt: Attempt): void {
    this.#all.delete(attempt);
    this.#stuck.delete(attempt);
    if (this.#all.size > 0) return;
    for (const resolve of this.#idleWaiters) resolve();
    this.#idleWaiters = [];
  }

  /** Resolves when there are none. */
  async idle(): Promise<void> {
    if (this.#all.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }
}
