import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { leaveShares, openShares, takeShare } from "../sql/take-places.ts";
import type { Pools } from "./pools.ts";

/** How long a worker takes places one by one after it lost a share. */
const askAgainMs = 5_000;
/** The same, after it was refused one for the first time: another worker may have asked in that moment. Twice as long after each further refusal. */
const askAgainSoonMs = 100;
/** How many jobs a worker holds beyond its slots at most: jobs that are claimed ahead, and outcomes that are not recorded yet. */
const mostBeyondSlots = 4_000;

export type LimitSharesOptions = {
  readonly db: Db;
  readonly worker: string;
  readonly pools: () => Pick<Pools, "busy" | "slots" | "size">;
};

/** Jobs of one claim that have not begun. */
export type SharedClaim = {
  readonly jobs: readonly ClaimedJob[];
  /** Every limit that one of the jobs may be under. */
  readonly rules: readonly string[];
  /** Begins the jobs; false: it is too late for that. */
  readonly begin: () => boolean;
};

/**
 * The shares that this worker has of limits. Under a limit with room to spare, a worker takes no place for each job: it reserves room for all the jobs
 * that it may hold at once, and every claim confirms that the reservation still stands. Decision 0035.
 */
export class LimitShares {
  readonly #options: LimitSharesOptions;
  /** The size of each share, by the rule. */
  readonly #places = new Map<string, number>();
  /** Of all shares. Infinity without one. */
  #smallest = Infinity;
  readonly #closed = new Set<string>();
  readonly #covered = new WeakSet<ClaimedJob>();
  #askAt = 0;
  /** In a row. */
  #refusals = 0;
  /** Jobs that are being confirmed. */
  #pending = 0;
  /** What the last claim found: the open shares, which cover its jobs. */
  #confirmed: { readonly leaseId: string; readonly open: readonly string[] } | undefined;

  constructor(options: LimitSharesOptions) {
    this.#options = options;
  }

  /** Whether claims are to confirm shares. */
  get isUsed(): boolean {
    return this.#places.size > 0;
  }

  /** The claim with this lease confirmed these shares. */
  confirmed(leaseId: string, open: readonly string[]): void {
    this.#confirmed = { leaseId, open };
  }

  /** Whether the job runs without places of its own. */
  covers(job: ClaimedJob): boolean {
    return this.#covered.has(job);
  }

  /** Whether jobs of this worker may still count for a share that was closed: each end of one frees room that no statement gives away. */
  get isLeaving(): boolean {
    return this.#closed.size > 0;
  }

  /** How many jobs under a limit a pool may claim ahead of its slots. */
  get ahead(): number {
    if (this.#places.size === 0) return 0;
    const { slots, size } = this.#options.pools();
    return Math.max(Math.floor((this.#smallest - slots) / size), 0);
  }

  /** How many jobs under a limit the worker may claim now. Without a share, and with more slots than the share, places decide. */
  get room(): number {
    const { busy, slots } = this.#options.pools();
    return this.#places.size === 0 || this.#smallest < slots
      ? Infinity
      : this.#smallest - busy - this.#pending;
  }

  /** Begin these jobs in the shares that their claim confirmed. False: it did not. */
  beginConfirmed(claim: SharedClaim): boolean {
    const confirmed = this.#confirmed;
    if (confirmed === undefined || claim.jobs[0]?.fence.leaseId !== confirmed.leaseId) return false;
    return this.#begin(claim, confirmed.open, claim.jobs.length);
  }

  /** Begin these jobs in the shares of their limits. False: they need places of their own. Rejects if the database is unavailable. */
  async begin(claim: SharedClaim, deadlineMs: number): Promise<boolean> {
    const { db, worker } = this.#options;
    const { jobs, rules } = claim;
    this.#pending += jobs.length;
    try {
      for (const rule of rules)
        if (!this.#places.has(rule) && !(await this.#ask(rule, deadlineMs))) return false;
      return this.#fits(rules, 0) && this.#begin(claim, await openShares(db, worker, { deadlineMs }), 0);
    } finally {
      this.#pending -= jobs.length;
    }
  }

  /** `more`: those of the jobs that do not count as pending. Jobs that begin count as busy before they are no longer pending. */
  #begin({ jobs, rules, begin }: SharedClaim, open: readonly string[], more: number): boolean {
    const closed = rules.filter((rule) => this.#places.has(rule) && !open.includes(rule));
    if (closed.length > 0) this.#close(closed);
    if (!this.#fits(rules, more) || !begin()) return false;
    for (const job of jobs) this.#covered.add(job);
    return true;
  }

  /** The shares of this worker that are closed, and whose jobs have not all ended. */
  learn(closed: readonly string[]): void {
    this.#closed.clear();
    this.#close(closed);
  }

  /** Give up every share: the worker ends. */
  async leave(): Promise<void> {
    if (this.#places.size > 0 || this.isLeaving) await leaveShares(this.#options.db, this.#options.worker);
  }

  async #ask(rule: string, deadlineMs: number): Promise<boolean> {
    const { db, worker, pools } = this.#options;
    if (monotonicMs() < this.#askAt) return false;
    const { slots } = pools();
    const room = { least: slots, most: slots + mostBeyondSlots };
    const places = await takeShare(db, worker, rule, room, { deadlineMs });
    if (places === null) {
      this.#askAt = monotonicMs() + Math.min(askAgainSoonMs * 2 ** this.#refusals, askAgainMs);
      this.#refusals += 1;
    } else {
      this.#refusals = 0;
      this.#places.set(rule, places);
    }
    this.#smallest = Math.min(...this.#places.values());
    return places !== null;
  }

  #close(rules: readonly string[]): void {
    for (const rule of rules) {
      this.#closed.add(rule);
      if (this.#places.delete(rule)) this.#askAt = monotonicMs() + askAgainMs;
    }
    this.#smallest = Math.min(...this.#places.values());
  }

  #fits(rules: readonly string[], more: number): boolean {
    const needed = this.#options.pools().busy + this.#pending + more;
    return rules.every((rule) => (this.#places.get(rule) ?? 0) >= needed);
  }
}
