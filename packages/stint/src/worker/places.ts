import type { Db } from "../db/db.ts";
import { isTransient } from "../db/transient.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { placesFor } from "../sql/take-places.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import type { Releaser } from "./releaser.ts";
import type { Tokens } from "./tokens.ts";

export type PlacesOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly releaser: Pick<Releaser, "release">;
  readonly tokens: Pick<Tokens, "applies" | "addKeys" | "take">;
};

/**
 * Takes the places of limited jobs, and then their tokens, between their claim and their start. The database decides under the locks of the keys; a job without a place
 * is parked there, and is no longer this worker's.
 */
export class Places {
  readonly #options: PlacesOptions;
  #rules: ReadonlySet<string> = new Set();

  constructor(options: PlacesOptions) {
    this.#options = options;
  }

  /** The limits of queues, kinds and tenants that are in force, for jobs that carry no keys. */
  learn(rules: readonly string[]): void {
    this.#rules = new Set(rules);
  }

  /** Whether the job may be under a limit. */
  isLimited = (job: ClaimedJob): boolean => {
    const { limits, kind, queue, tenant } = job;
    if (limits !== null || this.#options.tokens.applies(job)) return true;
    const rules = this.#rules;
    if (rules.size === 0) return false;
    return (
      rules.has(`kind:${kind}`) ||
      rules.has(`queue:${queue}`) ||
      (tenant !== null && (rules.has(`tenant:${kind}`) || rules.has("tenant:*")))
    );
  };

  /**
   * The jobs that have their places and tokens now. While the database is unavailable, it tries again for half of their leases, and then releases them. Never
   * rejects.
   */
  async take(jobs: readonly ClaimedJob[]): Promise<readonly ClaimedJob[]> {
    const placed = await this.#place(jobs);
    return placed.length === 0 ? [] : await this.#options.tokens.take(placed);
  }

  async #place(jobs: readonly ClaimedJob[]): Promise<ClaimedJob[]> {
    const { db, logger, releaser, tokens } = this.#options;
    const leasesMs = jobs.map(({ leaseMs }) => leaseMs);
    const until = performance.now() + Math.min(...leasesMs) / 2;
    const fences = jobs.map(({ fence }) => fence);
    const retryDelay = new RetryDelay();
    do {
      try {
        await tokens.addKeys(jobs);
        const placed = await placesFor(db, fences, { deadlineMs: leaseDeadlineMs(leasesMs) });
        if (performance.now() > until) break;
        return jobs.filter(({ fence }) => placed.get(fence.job) === "taken");
      } catch (error) {
        if (!isTransient(error))
          logger.error({ err: error }, "could not take places of limits; trying again");
        await sleep(retryDelay.next(), undefined, { unref: true });
      }
    } while (performance.now() < until);
    await releaser.release(jobs);
    return [];
  }
}
