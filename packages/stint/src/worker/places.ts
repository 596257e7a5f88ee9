import { codeOf } from "../db/sqlstate.ts";
import { isTransient } from "../db/transient.ts";
import type { ClaimedJob } from "../model/job.ts";
import { dependencyKey } from "../model/limits.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { placesFor } from "../sql/take-places.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import { LateLimits, type LateLimitsOptions } from "./late-limits.ts";
import type { LimitShares } from "./limit-shares.ts";
import type { Tokens } from "./tokens.ts";

export type PlacesOptions = LateLimitsOptions & {
  readonly tokens: Pick<Tokens, "applies" | "namesOf" | "lacksKeys" | "addKeys" | "take">;
  readonly shares: Pick<LimitShares, "begin" | "beginConfirmed" | "covers" | "isLeaving" | "learn">;
};

/** A limit was changed in the same moment, which gave places to running jobs: a unique violation. A repeat sees these places. */
const takenMeanwhile = "23505";

/** Whether jobs have begun in the shares of their worker; a promise, if the claim did not confirm the shares. */
export type Begun = boolean | Promise<boolean>;

/**
 * Takes the places of limited jobs, and then their tokens, between their claim and their start. The database decides under the locks of the keys; a job
 * without a place is parked there, and is no longer this worker's. Under limits with room to spare, the worker has shares instead.
 */
export class Places {
  readonly #options: PlacesOptions;
  readonly #late: LateLimits;
  #rules: ReadonlySet<string> = new Set();

  constructor(options: PlacesOptions) {
    this.#options = options;
    this.#late = new LateLimits(options);
  }

  /** The limits of queues, kinds and tenants that are in force, for jobs that carry no keys, and the closed shares of this worker. */
  learn(rules: readonly string[], closedShares: readonly string[] = []): void {
    const added = rules.filter((rule) => !this.#rules.has(rule));
    this.#rules = new Set(rules);
    this.#options.shares.learn(closedShares);
    this.#late.learned(added, this.needsPlaces);
  }

  /** Whether the job may need places or tokens. */
  isLimited = (job: ClaimedJob): boolean => this.#options.tokens.applies(job) || this.needsPlaces(job);

  /** Whether the job may need places, and not only tokens. A dependency without a limit of its concurrency has no places. */
  needsPlaces = (job: ClaimedJob): boolean => {
    const { limits, kind, queue, tenant } = job;
    const rules = this.#rules;
    // Nearly every job, and this is asked three times for each.
    if (limits === null && rules.size === 0) return this.#options.tokens.lacksKeys(job);
    // Without a key, the kind has a limit of its own.
    if (limits?.length === 0) return true;
    if (limits?.some((key) => !isDependency(key) || rules.has(key)) === true) return true;
    if (limits === null && this.#options.tokens.lacksKeys(job)) return true;
    if (rules.size === 0) return false;
    return (
      rules.has(`kind:${kind}`) ||
      rules.has(`queue:${queue}`) ||
      (tenant !== null && (rules.has(`tenant:${kind}`) || rules.has("tenant:*"))) ||
      this.#options.tokens.namesOf(kind).some((name) => rules.has(dependencyKey(name)))
    );
  };

  /** Whether the end of the job may free a place, or room of a share that is closed. */
  mayFree(job: ClaimedJob): boolean {
    const { shares } = this.#options;
    return this.needsPlaces(job) && (shares.isLeaving || !shares.covers(job));
  }

  /**
   * Begin these jobs without places of their own, if this worker has shares of all their limits. Returns whether they have begun. Never rejects.
   */
  beginInShares(jobs: readonly ClaimedJob[], begin: () => void): Begun {
    const { shares } = this.#options;
    const rules = this.#sharedRulesOf(jobs);
    if (rules === undefined) return false;
    const shortestMs = jobs.reduce((ms, { leaseMs }) => Math.min(ms, leaseMs), Infinity);
    const until = performance.now() + shortestMs / 2;
    const beginInTime = (): boolean => {
      if (performance.now() > until) return false;
      begin();
      return true;
    };
    const claim = { jobs, rules, begin: beginInTime };
    // Taking places retries, and reports what does not pass.
    return (
      shares.beginConfirmed(claim) || shares.begin(claim, leaseDeadlineMs([shortestMs])).catch(() => false)
    );
  }

  /**
   * The jobs that have their places and tokens now. While the database is unavailable, it tries again for half of their leases, and then releases them. Never
   * rejects.
   */
  async take(jobs: readonly ClaimedJob[]): Promise<readonly ClaimedJob[]> {
    const placed = await this.#place(jobs);
    if (placed.length === 0) return [];
    return (await this.#options.tokens.take(placed, { placed: true })) ?? [];
  }

  /** The jobs that have their tokens now; undefined: a dependency of theirs limits its concurrency since a moment ago, and they need places. Never rejects. */
  async takeTokens(jobs: readonly ClaimedJob[]): Promise<readonly ClaimedJob[] | undefined> {
    return await this.#options.tokens.take(jobs, { placed: false });
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
        if (!isTransient(error) && codeOf(error) !== takenMeanwhile)
          logger.error({ err: error }, "could not take places of limits; trying again");
        await sleep(retryDelay.next(), undefined, { unref: true });
      }
    } while (performance.now() < until);
    await releaser.release(jobs);
    return [];
  }

  /** Every limit that one of these jobs may be under. Undefined: one of the jobs needs places or tokens of its own. */
  #sharedRulesOf(jobs: readonly ClaimedJob[]): string[] | undefined {
    const found = new Set<string>();
    let last: ClaimedJob | undefined;
    for (const job of jobs) {
      const { limits, kind, queue, tenant } = job;
      if (this.#options.tokens.lacksKeys(job)) return undefined;
      for (const key of limits ?? []) {
        if (isDependency(key) && !this.#rules.has(key)) continue;
        if (isUnshared(key)) return undefined;
        found.add(ruleOf(key));
      }
      // Most claims have jobs of one kind.
      if (kind === last?.kind && queue === last.queue && tenant === last.tenant) continue;
      last = job;
      const rules = rulesOf(job).filter((rule) => this.#rules.has(rule));
      // Without a known limit, the database decides: its kind has one that this worker has not read yet.
      if (this.#options.tokens.applies(job) || (rules.length === 0 && limits?.length === 0)) return undefined;
      for (const rule of rules) found.add(rule);
    }
    return [...found];
  }
}

/** The limits of queues, kinds and tenants that the job may be under. */
function rulesOf({ kind, queue, tenant }: ClaimedJob): string[] {
  const rules = [`kind:${kind}`, `queue:${queue}`];
  return tenant === null ? rules : [...rules, `tenant:${kind}`, "tenant:*"];
}

/** The limit that a key belongs to: everything before its value. */
function ruleOf(key: string): string {
  const at = key.indexOf("=");
  return at === -1 ? key : key.slice(0, at);
}

function isUnshared(rule: string): boolean {
  return rule.startsWith("order:") || rule.startsWith("pass:") || isDependency(rule);
}

function isDependency(rule: string): boolean {
  return rule.startsWith(dependencyKey(""));
}
