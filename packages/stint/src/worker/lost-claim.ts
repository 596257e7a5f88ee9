import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import { claimedBy, claimWindow, type LeaseInput } from "../sql/claim.ts";
import { leaseDeadlineMs } from "./deadlines.ts";

/**
 * A claim whose answer was lost. It may have taken jobs, or may still take some until its deadline; they would count a crash
 * when their lease ends.
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
   * @param backend Process id of the session it was sent to, if that is known.
   */
  constructor(db: Db, input: LeaseInput, until: number, backend?: number) {
    this.#db = db;
    this.#input = input;
    this.#until = until;
    this.#backend = backend;
    this.#leasesMs = [input.leaseMs, ...Object.values(input.kindLeaseMs)];
  }

  /** How long to wait for an answer about its leases. */
  get deadlineMs(): number {
    return leaseDeadlineMs(this.#leasesMs);
  }

  /** How long to wait between two looks, so that none of its leases ends unseen. */
  get lookEveryMs(): number {
    return Math.min(2_000, Math.max(250, Math.min(...this.#leasesMs) / 4));
  }

  /** Whether it can take nothing any more, and has taken nothing. */
  get over(): boolean {
    return this.#over;
  }

  /** The jobs it has taken, if it has taken any by now. */
  async look(): Promise<ClaimedJob[]> {
    const options = { deadlineMs: this.deadlineMs };
    // Before the look: a claim that commits between the two is seen.
    const window = { until: this.#until, backend: this.#backend };
    const { pastMs, oldest, own, atWork } = await claimWindow(this.#db, window, options);
    const jobs = await claimedBy(this.#db, this.#input, options);
    if (jobs.length > 0 || pastMs <= 0) return jobs;
    // A claim has its transaction id before it checks its deadline. So one that is still under way is older than this; where
    // another old transaction stays open, the end of the longest lease ends the search. A backend that stands still in the middle
    // of the claim may commit after that: then its leases have ended already, and only this search prevents a crash.
    this.#boundary ??= own;
    this.#over = oldest >= this.#boundary || (pastMs > Math.max(...this.#leasesMs) && !atWork);
    return jobs;
  }
}
