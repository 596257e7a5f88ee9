import { randomUUID } from "node:crypto";
import { ConnectionLost, type Db, type RunOptions } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import { isPattern } from "../model/name-pattern.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { claim, claimQuarantined, reserveQuarantined, type ClaimInput, type Floor } from "../sql/claim.ts";
import { findReadyQueues, type QueueRange, type ReadyQueues } from "../sql/ready-queues.ts";
import { claimDeadlineMs } from "./deadlines.ts";
import { releaseUnbegun } from "./release.ts";
import { Leases } from "./leases.ts";
import { LostClaim } from "./lost-claim.ts";

export type ClaimerOptions = Pick<ClaimInput, "worker" | "kindLeaseMs" | "leaseMs"> & {
  /** The kinds to claim now. */
  readonly kinds: () => readonly string[];
  readonly db: Db;
  /** Names, and patterns. */
  readonly queues: readonly string[];
  /** Jobs of a claim whose answer was lost are ours to run. `sentAt` is from before that claim. */
  readonly onFound: (jobs: readonly ClaimedJob[], sentAt: number) => void;
  /** Jobs of a claim that was given up went back to these queues. */
  readonly onReleased: (queues: readonly string[]) => void;
};

type Input = Omit<ClaimInput, "takes">;

/** Claims for one worker, each under a lease id of its own, and finds what a claim took whose answer was lost. */
export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #deadlineMs: number;
  readonly #ended = new AbortController();
  readonly #searches = new Set<Promise<void>>();
  /** How often in a row a claim came too late. */
  #refusals = 0;
  readonly #served: { readonly queues: readonly string[]; readonly patterns: readonly string[] };

  constructor(options: ClaimerOptions) {
    const { queues } = options;
    this.#options = options;
    this.#deadlineMs = claimDeadlineMs([options.leaseMs, ...Object.values(options.kindLeaseMs)]);
    this.#served = {
      queues: queues.filter((queue) => !isPattern(queue)),
      patterns: queues.filter(isPattern),
    };
  }

  /** Ready jobs, up to the limit of each queue; those after the floors, if it is given some. */
  async ready(
    takes: ClaimInput["takes"],
    floors: readonly Floor[] | undefined,
    stopping: AbortSignal,
  ): Promise<ClaimedJob[]> {
    const { db, onFound } = this.#options;
    return await this.#surely(
      (input, options) => claim(db, { ...input, takes }, floors, options),
      async (lost, sentAt) => {
        const jobs = await this.#find(lost, stopping);
        if (jobs.length > 0) onFound(jobs, sentAt);
        // How long a lost claim took says nothing of how long claims take: to the caller it has failed.
        return [];
      },
    );
  }

  /** One job that is suspected of killing its worker. Only for a worker that runs nothing else. */
  async suspect(stopping: AbortSignal): Promise<ClaimedJob | undefined> {
    const { db } = this.#options;
    const jobs = await this.#surely(
      (input, options) => claimQuarantined(db, { ...input, ...this.#served, waitedMs: 0 }, options),
      (lost) => this.#find(lost, stopping),
    );
    return jobs[0];
  }

  /** Whether a suspect has waited for so long that this worker should make room for it. */
  async suspectWaits(waitedMs: number): Promise<boolean> {
    const { db, kinds } = this.#options;
    return await reserveQuarantined(db, { kinds: kinds(), ...this.#served, waitedMs });
  }

  /** Queues in these ranges that have ready jobs of its kinds. */
  async readyQueues(ranges: readonly QueueRange[]): Promise<ReadyQueues> {
    const { db, kinds } = this.#options;
    return await findReadyQueues(db, { ranges, kinds: kinds() });
  }

  /** Resolves when no claim that was given up can hold a job any more, or `end` was called. */
  async idle(): Promise<void> {
    while (this.#searches.size > 0) await Promise.all(this.#searches);
  }

  /** The database is about to be let go of: look for nothing more. */
  end(): void {
    this.#ended.abort();
  }

  /**
   * A claim is given up by its worker and by the database: the one stops waiting for its answer, the other refuses it after its
   * deadline. What it took before is looked for.
   */
  async #surely(
    send: (input: Input, options: RunOptions) => Promise<ClaimedJob[]>,
    onLost: (lost: LostClaim, sentAt: number) => Promise<ClaimedJob[]>,
  ): Promise<ClaimedJob[]> {
    const { db } = this.#options;
    const sentAt = Leases.now();
    const until = db.clock.deadline(this.#refusals, this.#deadlineMs);
    const input = { ...this.#input(), until };
    try {
      const jobs = await send(input, { deadlineMs: this.#deadlineMs });
      this.#refusals = 0;
      return jobs;
    } catch (error) {
      if (isTooLate(error)) this.#refusals += 1;
      if (!(error instanceof ConnectionLost)) throw error;
      const jobs = await onLost(new LostClaim(db, input, until, error.backend), sentAt);
      if (jobs.length === 0) throw error;
      return jobs;
    }
  }

  /** What it took so far is ours for as long as its lease lasts. What it takes later goes back. */
  async #find(claim: LostClaim, stopping: AbortSignal): Promise<ClaimedJob[]> {
    const lastMs = performance.now() + this.#options.leaseMs;
    const retryDelay = new RetryDelay();
    while (!stopping.aborted && performance.now() < lastMs) {
      try {
        const jobs = await claim.look();
        if (jobs.length > 0) return jobs;
        break;
      } catch {
        await sleep(retryDelay.next(), stopping);
      }
    }
    if (!claim.over) this.#releaseLater(claim);
    return [];
  }

  #releaseLater(claim: LostClaim): void {
    const search = this.#release(claim).finally(() => this.#searches.delete(search));
    this.#searches.add(search);
  }

  /** Nobody runs what it takes now. It goes back, through any outage, so that it counts no crash. */
  async #release(claim: LostClaim): Promise<void> {
    const { db, onReleased } = this.#options;
    const { signal } = this.#ended;
    for (let left: Fence[] = []; !signal.aborted && (left.length > 0 || !claim.over);) {
      await sleep(claim.lookEveryMs, signal, { unref: true });
      if (signal.aborted) return;
      try {
        if (left.length === 0) left = (await claim.look()).map((job) => job.fence);
        if (left.length === 0) continue;
        const back = await releaseUnbegun(db, left, { deadlineMs: claim.deadlineMs });
        onReleased(back.queues);
        left = back.left;
        if (left.length === 0) return;
      } catch {
        // The database is away. It is asked again until it says that nothing is left to be found.
      }
    }
  }

  #input(): Input {
    const { worker, kinds, kindLeaseMs, leaseMs } = this.#options;
    return { worker, leaseId: randomUUID(), kinds: kinds(), kindLeaseMs, leaseMs };
  }
}
