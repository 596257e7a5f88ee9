import type { ClaimedJob } from "../model/job.ts";

/** What the watch needs of an attempt. */
export type Stallable = {
  readonly job: ClaimedJob;
  readonly startedAt: number;
  /** When its handler last reported anything; undefined: never. */
  readonly activeAt: number | undefined;
  readonly over: boolean;
};

export type StalledAttempt = {
  readonly job: ClaimedJob;
  readonly quietMs: number;
  readonly stallAfterMs: number;
};

/** Finds attempts whose handler has reported nothing for longer than `stallAfter`. Reports each once until its handler reports again. */
export class StallWatch<Item extends Stallable> {
  readonly #attempts: () => Iterable<Item>;
  readonly #stallAfterMs: (job: ClaimedJob) => number | undefined;
  readonly #onStalled: (stalled: StalledAttempt) => void;
  /** The time of the last report before the stall. */
  readonly #reported = new WeakMap<Item, number>();

  constructor(options: {
    attempts: () => Iterable<Item>;
    stallAfterMs: (job: ClaimedJob) => number | undefined;
    onStalled: (stalled: StalledAttempt) => void;
  }) {
    this.#attempts = options.attempts;
    this.#stallAfterMs = options.stallAfterMs;
    this.#onStalled = options.onStalled;
  }

  look(at = performance.now()): void {
    for (const attempt of this.#attempts()) {
      const { job, startedAt, activeAt = startedAt, over } = attempt;
      const stallAfterMs = this.#stallAfterMs(job);
      if (over || stallAfterMs === undefined || at - activeAt <= stallAfterMs) continue;
      if (this.#reported.get(attempt) === activeAt) continue;
      this.#reported.set(attempt, activeAt);
      this.#onStalled({ job, quietMs: at - activeAt, stallAfterMs });
    }
  }
}
