import type { Db } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { isTransient } from "../db/transient.ts";
import { costsOf, type ResolvedUse } from "../model/dependencies.ts";
import type { ClaimedJob } from "../model/job.ts";
import { dependencyKey, limitKeys, type KindLimits } from "../model/limits.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { slowDependencies } from "../sql/dependencies.ts";
import { addLimitKeys, tokensFor, tokensTogether } from "../sql/take-tokens.ts";
import type { TakeTokensOptions, TokenRequest, TokensTaken } from "../sql/take-tokens.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import type { Releaser } from "./releaser.ts";
import { longestSlowMs, rateLimitOf } from "./verdict.ts";

/** A job starts within this time after its tokens were taken, or takes them again: a bucket does not count tokens that are used late. */
const validMs = 1_000;
/** How long each job asks for its own tokens, after those of a claim were not all there together. */
const oneByOneMs = 1_000;

export type TokensOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly releaser: Pick<Releaser, "release">;
  readonly usesOf: (kind: string) => readonly ResolvedUse[];
  /** The kinds whose limits or order have keys. */
  readonly keyed: ReadonlyMap<string, KindLimits>;
  /** Jobs wait for tokens, or a dependency is slow. */
  readonly onWaiting: () => void;
};

type Priced = { readonly job: ClaimedJob; readonly request: TokenRequest };
type Taken = { readonly at: string; readonly sentMs: number; readonly serverMs: number };

/**
 * Takes the tokens of jobs whose kinds use dependencies, between their claim and their start. The database decides by its clock, under the locks of the
 * dependencies; a job without tokens is parked there, and is no longer this worker's.
 */
export class Tokens {
  readonly #options: TokensOptions;
  readonly #taken = new WeakMap<ClaimedJob, Taken>();
  /** Why the cost or the keys of a job cannot be computed. Its attempt fails with this error. */
  readonly #unpriced = new WeakMap<ClaimedJob, unknown>();
  /** When this worker learned that a dependency asks for a pause, by its name. */
  readonly #slowedMs = new Map<string, number>();
  /** Resolves when the database knows of the last pause that was asked for. */
  #slowing: Promise<unknown> = Promise.resolve();
  #oneByOneUntil = 0;

  constructor(options: TokensOptions) {
    this.#options = options;
  }

  /** Whether jobs of this kind need tokens. */
  applies = ({ kind }: Pick<ClaimedJob, "kind">): boolean => this.#options.usesOf(kind).length > 0;

  /** The dependencies of this kind. */
  namesOf(kind: string): readonly string[] {
    return this.#options.usesOf(kind).map(({ name }) => name);
  }

  /** Whether the job carries no keys, although its kind has limits or an order with keys: SQL or code of an earlier release enqueued it. */
  lacksKeys({ kind, limits }: Pick<ClaimedJob, "kind" | "limits">): boolean {
    const { keyed } = this.#options;
    // Plain jobs pass here several times.
    return limits === null && keyed.size > 0 && keyed.has(kind);
  }

  /** Gives jobs the keys that they do not carry, also those of dependencies that their kinds have used only since they were enqueued. */
  async addKeys(jobs: readonly ClaimedJob[]): Promise<void> {
    const lacking = jobs.flatMap((job) =>
      this.#keysOf(job)
        .filter((key) => job.limits?.includes(key) !== true)
        .map((key) => ({ fence: job.fence, key })),
    );
    if (lacking.length > 0) await addLimitKeys(this.#options.db, lacking);
  }

  #keysOf(job: ClaimedJob): readonly string[] {
    const dependencies = this.namesOf(job.kind).map(dependencyKey);
    const definition = this.#options.keyed.get(job.kind);
    if (definition === undefined || !this.lacksKeys(job)) return dependencies;
    try {
      return limitKeys(`defineJob("${job.kind}")`, definition, JSON.parse(job.payload))?.limits ?? [];
    } catch (error) {
      this.#unpriced.set(job, error);
      return dependencies;
    }
  }

  /**
   * The jobs that may start now: those that need no tokens, and those that have theirs. Without `placed` the jobs hold no places of limits; undefined: they
   * need some first. Never rejects.
   */
  async take(
    jobs: readonly ClaimedJob[],
    { placed }: { placed: boolean },
  ): Promise<readonly ClaimedJob[] | undefined> {
    const priced = jobs.flatMap((job) => {
      const request = this.applies(job) ? this.#price(job) : undefined;
      return request === undefined ? [] : [{ job, request }];
    });
    if (priced.length === 0) return jobs;
    await this.#slowing;
    const started = await this.#send(priced, placed);
    if (started === undefined || started.size === priced.length) return started && jobs;
    const asked = new Set(priced.map(({ job }) => job));
    return jobs.filter((job) => !asked.has(job) || started.has(job));
  }

  #price(job: ClaimedJob): TokenRequest | undefined {
    try {
      const payload: unknown = JSON.parse(job.payload);
      return { fence: job.fence, costs: costsOf(job.kind, this.#options.usesOf(job.kind), payload) };
    } catch (error) {
      this.#unpriced.set(job, error);
      return undefined;
    }
  }

  /** While the database is unavailable, it tries again for half of the leases, and then releases the jobs. */
  async #send(priced: readonly Priced[], placed: boolean): Promise<ReadonlySet<ClaimedJob> | undefined> {
    const { logger, releaser } = this.#options;
    const jobs = priced.map(({ job }) => job);
    const leasesMs = jobs.map(({ leaseMs }) => leaseMs);
    const until = performance.now() + Math.min(...leasesMs) / 2;
    const options = { placed, deadlineMs: leaseDeadlineMs(leasesMs) };
    const retryDelay = new RetryDelay();
    do {
      try {
        const taken = (await this.#takeTogether(priced, options)) ?? (await this.#takeEach(priced, options));
        if (performance.now() <= until) return taken;
        break;
      } catch (error) {
        if (!isTransient(error))
          logger.error({ err: error }, "could not take tokens of dependencies; trying again");
        await sleep(retryDelay.next(), undefined, { unref: true });
      }
    } while (performance.now() < until);
    await releaser.release(jobs);
    return new Set();
  }

  /** The common case: there are tokens for all jobs. Undefined: there are not. */
  async #takeTogether(
    priced: readonly Priced[],
    options: TakeTokensOptions,
  ): Promise<ReadonlySet<ClaimedJob> | undefined> {
    if (performance.now() < this.#oneByOneUntil) return undefined;
    const sent = this.#sent();
    const at = await tokensTogether(
      this.#options.db,
      priced.map(({ request }) => request),
      options,
    );
    if (at === null) this.#oneByOneUntil = performance.now() + oneByOneMs;
    return at === null ? undefined : this.#note(priced, at, sent);
  }

  async #takeEach(
    priced: readonly Priced[],
    options: TakeTokensOptions,
  ): Promise<ReadonlySet<ClaimedJob> | undefined> {
    const { db, releaser, onWaiting } = this.#options;
    const sent = this.#sent();
    const outcomes = await tokensFor(
      db,
      priced.map(({ request }) => request),
      options,
    );
    if (outcomes.size === 0) return undefined;
    const resultOf = ({ job }: Priced): TokensTaken | undefined => outcomes.get(job.fence.job);
    const having = (outcome: TokensTaken["outcome"]): Priced[] =>
      priced.filter((each) => resultOf(each)?.outcome === outcome);
    if (having("waits").length > 0) onWaiting();
    const cancelled = having("cancelled").map(({ job }) => job);
    if (cancelled.length > 0) void releaser.release(cancelled);
    const taken = having("taken");
    const [first] = taken;
    return first === undefined ? new Set() : this.#note(taken, resultOf(first)?.at ?? "", sent);
  }

  #sent(): Omit<Taken, "at"> {
    return { sentMs: performance.now(), serverMs: this.#options.db.clock.nowMs() };
  }

  #note(priced: readonly Priced[], at: string, sent: Omit<Taken, "at">): ReadonlySet<ClaimedJob> {
    const taken = { at, ...sent };
    for (const { job } of priced) this.#taken.set(job, taken);
    return new Set(priced.map(({ job }) => job));
  }

  /** @throws The reason why the cost or the keys of this job could not be computed. Its handler must not be called. */
  requireCosts(job: ClaimedJob): void {
    if (this.#unpriced.has(job)) throw this.#unpriced.get(job);
  }

  /**
   * Whether the tokens of this job must not be used: they were taken too long ago, or before a dependency asked for a pause. Both clocks count: one may
   * stop while its host is suspended.
   */
  isStale(job: ClaimedJob): boolean {
    const taken = this.#taken.get(job);
    if (taken === undefined) return false;
    return (
      this.#isSlowedSince(job, taken.sentMs) ||
      performance.now() - taken.sentMs > validMs ||
      this.#options.db.clock.nowMs() - taken.serverMs > 10 * validMs
    );
  }

  #isSlowedSince({ kind }: ClaimedJob, sentMs: number): boolean {
    return (
      this.#slowedMs.size > 0 && this.namesOf(kind).some((name) => (this.#slowedMs.get(name) ?? 0) > sentMs)
    );
  }

  /**
   * The handler of this job threw. If another system asked for a pause, the jobs that use it wait. Best effort: without it, another job would be
   * refused, too. Never throws.
   */
  threw(job: ClaimedJob, thrown: unknown): void {
    const { db, logger, onWaiting } = this.#options;
    const taken = this.#taken.get(job);
    const asked = taken === undefined ? undefined : rateLimitOf(thrown);
    if (taken === undefined || asked === undefined) return;
    const uses = this.namesOf(job.kind);
    const names = uses.filter((name) => name === asked.dependency);
    const slowed = names.length === 0 ? uses : names;
    for (const name of slowed) this.#slowedMs.set(name, performance.now());
    const before = toTimestamp(db.clock.deadline());
    const ms = Math.min(asked.ms, longestSlowMs);
    this.#slowing = slowDependencies(db, slowed, ms, taken.at, before).then(onWaiting, (error: unknown) =>
      logger.warn({ err: error, dependencies: slowed }, "could not slow down a dependency"),
    );
  }
}

/** The kinds whose keys come from the payloads of their jobs, or are shared with other kinds. */
export function keyedKinds(
  handlers: ReadonlyMap<string, { readonly definition: KindLimits }>,
): ReadonlyMap<string, KindLimits> {
  const keyed = new Map<string, KindLimits>();
  for (const [kind, { definition }] of handlers) {
    const { limits, order } = definition;
    const isKeyed =
      order !== undefined || limits.some(({ key, rule }) => key !== undefined || rule.startsWith("key:"));
    if (isKeyed) keyed.set(kind, definition);
  }
  return keyed;
}
