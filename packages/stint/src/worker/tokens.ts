import type { Db } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { isTransient } from "../db/transient.ts";
import { costsOf, type ResolvedUse } from "../model/dependencies.ts";
import type { ClaimedJob } from "../model/job.ts";
import { dependencyKey } from "../model/limits.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { slowDependencies } from "../sql/dependencies.ts";
import { addLimitKeys, tokensFor, type TokenRequest } from "../sql/take-tokens.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import type { Releaser } from "./releaser.ts";
import { rateLimitOf } from "./verdict.ts";

/** A job starts within this time after its tokens were taken, or takes them again: a bucket does not count tokens that are used late. */
const validMs = 1_000;
/** The longest pause that another system may ask for: a wrong header must not stop the jobs of a dependency for years. */
const longestSlowMs = 86_400_000;

export type TokensOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly releaser: Pick<Releaser, "release">;
  readonly usesOf: (kind: string) => readonly ResolvedUse[];
  /** Jobs wait for tokens, or a dependency is slow. */
  readonly onWaiting: () => void;
};

type Taken = { readonly at: string; readonly sentMs: number; readonly serverMs: number };

/**
 * Takes the tokens of jobs whose kinds use dependencies, between their claim and their start. The database decides by its clock, under the locks of the
 * dependencies; a job without tokens is parked there, and is no longer this worker's.
 */
export class Tokens {
  readonly #options: TokensOptions;
  readonly #taken = new WeakMap<ClaimedJob, Taken>();
  /** Why the cost of a job cannot be computed. Its attempt fails with this error. */
  readonly #unpriced = new WeakMap<ClaimedJob, unknown>();

  constructor(options: TokensOptions) {
    this.#options = options;
  }

  /** Whether jobs of this kind need tokens. */
  applies = ({ kind }: Pick<ClaimedJob, "kind">): boolean => this.#options.usesOf(kind).length > 0;

  /** Jobs that SQL enqueued, or that were enqueued before their kind used a dependency, do not carry the keys of its concurrency yet. */
  async addKeys(jobs: readonly ClaimedJob[]): Promise<void> {
    const lacking = jobs.flatMap(({ fence, kind, limits }) => {
      const keys = this.#options.usesOf(kind).map(({ name }) => dependencyKey(name));
      return keys.every((key) => limits?.includes(key)) ? [] : keys.map((key) => ({ fence, key }));
    });
    if (lacking.length > 0) await addLimitKeys(this.#options.db, lacking);
  }

  /** The jobs that may start now: those that need no tokens, and those that have theirs. Never rejects. */
  async take(jobs: readonly ClaimedJob[]): Promise<readonly ClaimedJob[]> {
    const priced = jobs.flatMap((job) => {
      const request = this.applies(job) ? this.#price(job) : undefined;
      return request === undefined ? [] : [{ job, request }];
    });
    if (priced.length === 0) return jobs;
    const started = new Set(await this.#send(priced));
    const asked = new Set(priced.map(({ job }) => job));
    return jobs.filter((job) => !asked.has(job) || started.has(job));
  }

  #price(job: ClaimedJob): TokenRequest | undefined {
    try {
      return { fence: job.fence, costs: costsOf(job.kind, this.#options.usesOf(job.kind), job.payload) };
    } catch (error) {
      this.#unpriced.set(job, error);
      return undefined;
    }
  }

  /** While the database is unavailable, it tries again for half of the leases, and then releases the jobs. */
  async #send(priced: readonly { job: ClaimedJob; request: TokenRequest }[]): Promise<ClaimedJob[]> {
    const { db, logger, releaser, onWaiting } = this.#options;
    const jobs = priced.map(({ job }) => job);
    const leasesMs = jobs.map(({ leaseMs }) => leaseMs);
    const until = performance.now() + Math.min(...leasesMs) / 2;
    const retryDelay = new RetryDelay();
    do {
      try {
        const requests = priced.map(({ request }) => request);
        const sent = { sentMs: performance.now(), serverMs: db.clock.nowMs() };
        const outcomes = await tokensFor(db, requests, { deadlineMs: leaseDeadlineMs(leasesMs) });
        if (performance.now() > until) break;
        const taken = jobs.filter((job) => {
          const result = outcomes.get(job.fence.job);
          if (result?.outcome === "taken") this.#taken.set(job, { at: result.at, ...sent });
          return result?.outcome === "taken";
        });
        const outcomeOf = (job: ClaimedJob): string | undefined => outcomes.get(job.fence.job)?.outcome;
        if (jobs.some((job) => outcomeOf(job) === "waits")) onWaiting();
        const cancelled = jobs.filter((job) => outcomeOf(job) === "cancelled");
        if (cancelled.length > 0) void releaser.release(cancelled);
        return taken;
      } catch (error) {
        if (!isTransient(error))
          logger.error({ err: error }, "could not take tokens of dependencies; trying again");
        await sleep(retryDelay.next(), undefined, { unref: true });
      }
    } while (performance.now() < until);
    await releaser.release(jobs);
    return [];
  }

  /** @throws The reason why the cost of this job could not be computed. Its handler must not be called. */
  requireCosts(job: ClaimedJob): void {
    if (this.#unpriced.has(job)) throw this.#unpriced.get(job);
  }

  /** Whether the tokens of this job were taken too long ago to be used. Both clocks count: one may stop while its host is suspended. */
  isStale(job: ClaimedJob): boolean {
    const taken = this.#taken.get(job);
    if (taken === undefined) return false;
    return (
      performance.now() - taken.sentMs > validMs ||
      this.#options.db.clock.nowMs() - taken.serverMs > 10 * validMs
    );
  }

  /**
   * The handler of this job threw. If another system asked for a pause, the jobs that use it wait. Best effort: without it, another job would be
   * refused, too. Never throws.
   */
  threw(job: ClaimedJob, thrown: unknown): void {
    const { db, logger, usesOf, onWaiting } = this.#options;
    const taken = this.#taken.get(job);
    const asked = taken === undefined ? undefined : rateLimitOf(thrown);
    if (taken === undefined || asked === undefined) return;
    const uses = usesOf(job.kind).map(({ name }) => name);
    const names = uses.filter((name) => name === asked.dependency);
    const slowed = names.length === 0 ? uses : names;
    const before = toTimestamp(db.clock.deadline());
    slowDependencies(db, slowed, Math.min(asked.ms, longestSlowMs), taken.at, before).then(
      onWaiting,
      (error: unknown) =>
        logger.warn({ err: error, dependencies: slowed }, "could not slow down a dependency"),
    );
  }
}
