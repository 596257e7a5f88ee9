import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import type { Metering } from "./metering.ts";
import { releaseUnbegun } from "./release-unbegun.ts";

export type ReleaserOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly metering: Pick<Metering, "released">;
  /** Jobs of these queues are ready again. */
  readonly onReleased: (queues: readonly string[]) => void;
};

/** Releases claimed jobs that never began. Retries through an outage: a job left to its lease would count a crash. */
export class Releaser {
  readonly #options: ReleaserOptions;
  readonly #underWay = new Set<Promise<void>>();
  readonly #ended = new AbortController();
  #count = 0;

  constructor(options: ReleaserOptions) {
    this.#options = options;
  }

  /** How many jobs it was given to release. */
  get count(): number {
    return this.#count;
  }

  /** Resolves when they are released, or their leases have run out. Never rejects. */
  async release(jobs: readonly ClaimedJob[]): Promise<void> {
    if (jobs.length === 0) return;
    this.#count += jobs.length;
    this.#options.metering.released(jobs);
    const released = this.#release(jobs);
    this.#underWay.add(released);
    await released;
    this.#underWay.delete(released);
  }

  /** Resolves when no release is under way. */
  async idle(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** The database connection is about to close: try nothing more. */
  end(): void {
    this.#ended.abort();
  }

  async #release(jobs: readonly ClaimedJob[]): Promise<void> {
    const { db, logger, onReleased } = this.#options;
    const { signal } = this.#ended;
    const retryDelay = new RetryDelay();
    const leasesMs = jobs.map((job) => job.leaseMs);
    const until = performance.now() + Math.min(...leasesMs);
    const options = { deadlineMs: leaseDeadlineMs(leasesMs) };
    let left = jobs.map((job) => job.fence);
    while (performance.now() < until && !signal.aborted) {
      try {
        const released = await releaseUnbegun(db, left, options);
        onReleased(released.queues);
        left = released.left;
        if (left.length === 0) return;
      } catch (error) {
        logger.warn({ err: error }, "could not release jobs that had not begun; trying again");
      }
      await sleep(retryDelay.next(), undefined, { unref: true });
    }
  }
}
