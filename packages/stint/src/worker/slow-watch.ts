import type { ClaimedJob } from "../model/job.ts";
import { slowness, type Slowness } from "../model/slow.ts";

/** What the watch needs of an attempt. */
export type Watchable = { readonly job: ClaimedJob; readonly startedAt: number; readonly over: boolean };

export type SlowAttempt = {
  readonly job: ClaimedJob;
  readonly ms: number;
  readonly p95Ms: number | null;
  readonly because: Slowness;
};

/** Finds attempts that run longer than usual for their kind, or are close to their timeout. Reports each once. */
export class SlowWatch<Item extends Watchable> {
  readonly #attempts: () => Iterable<Item>;
  readonly #timeoutOf: (job: ClaimedJob) => number;
  readonly #onSlow: (slow: SlowAttempt) => void;
  readonly #reported = new WeakSet<Item>();
  #p95Ms: ReadonlyMap<string, number> = new Map();

  constructor(options: {
    attempts: () => Iterable<Item>;
    timeoutOf: (job: ClaimedJob) => number;
    onSlow: (slow: SlowAttempt) => void;
  }) {
    this.#attempts = options.attempts;
    this.#timeoutOf = options.timeoutOf;
    this.#onSlow = options.onSlow;
  }

  /** The usual duration of each kind, as far as it is known. */
  learn(p95Ms: ReadonlyMap<string, number>): void {
    this.#p95Ms = p95Ms;
  }

  look(at = performance.now()): void {
    for (const attempt of this.#attempts()) {
      const { job, startedAt, over } = attempt;
      if (over || this.#reported.has(attempt)) continue;
      const ms = at - startedAt;
      const p95Ms = this.#p95Ms.get(job.kind) ?? null;
      const because = slowness({ runningMs: ms, p95Ms, timeoutMs: this.#timeoutOf(job) });
      if (because === null) continue;
      this.#reported.add(attempt);
      this.#onSlow({ job, ms, p95Ms, because });
    }
  }
}
