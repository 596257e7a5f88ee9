import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { countRunning } from "../sql/limits.ts";
import type { Pools } from "./pools.ts";
import type { Releaser } from "./releaser.ts";

export type LateLimitsOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly releaser: Pick<Releaser, "release">;
  /** Jobs that have begun and are not recorded yet. */
  readonly begun: () => readonly ClaimedJob[];
  readonly pools: Pick<Pools, "releaseWaiting">;
};

/**
 * A worker learns of a new limit within a second. Jobs that it began in between count for the limit from then on, also beyond its max: without that, the
 * limit would be exceeded for as long as they run.
 */
export class LateLimits {
  readonly #options: LateLimitsOptions;
  /** Limits whose running jobs are not counted yet. */
  readonly #uncounted = new Set<string>();
  #isCounting = false;

  constructor(options: LateLimitsOptions) {
    this.#options = options;
  }

  /** The worker has read the limits. `added` are new to it. Jobs that have not begun and for which `isLimited` holds take their places. */
  learned(added: readonly string[], isLimited: (job: ClaimedJob) => boolean): void {
    const { releaser, pools } = this.#options;
    for (const rule of added) this.#uncounted.add(rule);
    if (added.length > 0) void releaser.release(pools.releaseWaiting(isLimited));
    if (this.#uncounted.size > 0 && !this.#isCounting) void this.#count(isLimited);
  }

  /** Never rejects. What fails is done when the limits are read next. */
  async #count(isLimited: (job: ClaimedJob) => boolean): Promise<void> {
    const { db, logger, begun } = this.#options;
    const rules = [...this.#uncounted];
    const fences = begun()
      .filter(isLimited)
      .map(({ fence }) => fence);
    this.#isCounting = true;
    try {
      if (fences.length > 0) await countRunning(db, fences, rules);
      for (const rule of rules) this.#uncounted.delete(rule);
    } catch (error) {
      logger.warn(
        { err: error, limits: rules },
        "could not count running jobs for a new limit; trying again",
      );
    } finally {
      this.#isCounting = false;
    }
  }
}
