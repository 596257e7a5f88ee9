import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import { claimedBy, claimWindow, type LeaseInput } from "../sql/claim.ts";
import { leaseDeadlineMs } from "./deadlines.ts";

/**
 * A claim whose response was lost. It may have taken jobs, or may still take some until its deadline. When their leases run out,
 * those jobs would count a crash.
 */
export class LostClaim {
  readonly #db: Db;
  readonly #input: LeaseInput;
  readonly #until: number;
  readonly #backend: number | undefined;
  readonly #leasesMs: readonly number[];
  /** Transactions from this one on began after the deadline. */
  #boundary: bigint | undefined;
  #over = false;

  /**
   * @param until Its deadline, by the database's clock.
   * @param backend Process id of the session that got it, if known.
   */
  constructor(db: Db, input: LeaseInput, until: number, backend?: number) {
    this.#db = db;
    this.#input = input;
    this.#until = until;
    this.#backend = backend;
    this.#leasesMs = [input.leaseMs, ...Object.values(input.kindLeaseMs)];
  }

  /** How long a statement about its leases may take. */
  get deadlineMs(): number {
    return leaseDeadlineMs(this.#leasesMs);
  }

  /** How often to look, so that none of its leases runs out unseen. */
  get lookEveryMs(): number {
    return Math.min(2_000, Math.max(250, Math.min(...this.#leasesMs) / 4));
  }

  /** Whether it has taken nothing and can no longer take anything. */
  get over(): boolean {
    return this.#over;
  }

  /** The jobs it has taken by now. */
  async look(): Promise<ClaimedJob[]> {
    const options = { deadlineMs: this.deadlineMs };
    // Before the look: a claim that commits between the two is seen.
    const window = { until: this.#until, backend: this.#backend };
    const { pastMs, oldest, own, atWork } = await claimWindow(this.#db, window, options);
    const jobs = await claimedBy(this.#db, this.#input, options);
    if (jobs.length > 0 || pastMs <= 0) return jobs;
    // A claim gets its transaction id before it checks its deadline, so a claim still under way is older than the boundary. Where
    // another old transaction stays open, the search ends with the longest lease. A backend that hangs in the middle of the claim
    // may commit after that: its leases have run out by then, and only this search prevents a counted crash.
    this.#boundary ??= own;
    this.#over = oldest >= this.#boundary || (pastMs > Math.max(...this.#leasesMs) && !atWork);
    return jobs;
  }
}
