import { randomUUID } from "node:crypto";
import { ConnectionLost, type Db, type RunOptions } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import {
  claim,
  claimInShares,
  claimQuarantined,
  reserveQuarantined,
  type ClaimInput,
  type Floor,
} from "../sql/claim.ts";
import { claimUrgent } from "../sql/claim-urgent.ts";
import { claimAged, type AgedClaimInput } from "../sql/claim-aged.ts";
import { claimFair, type FairClaim, type FairClaimInput } from "../sql/claim-fair.ts";
import { findReadyQueues, type QueueRange, type ReadyQueues } from "../sql/ready-queues.ts";
import type { ClaimScope } from "./claim-scope.ts";
import { claimDeadlineMs } from "./deadlines.ts";
import { releaseUnbegun } from "./release-unbegun.ts";
import { Leases } from "./leases.ts";
import type { LimitShares } from "./limit-shares.ts";
import { LostClaim } from "./lost-claim.ts";

export type ClaimerOptions = Pick<ClaimInput, "worker" | "kindLeaseMs" | "leaseMs"> & {
  readonly db: Db;
  readonly scope: ClaimScope;
  readonly shares: Pick<LimitShares, "isUsed" | "confirmed">;
  /** Jobs of a claim whose response was lost are ours to run. `sentAt` is from before that claim. Resolves when they have their places. */
  readonly onFound: (jobs: readonly ClaimedJob[], sentAt: number) => Promise<void> | undefined;
  /** Jobs of an abandoned claim were released to these queues. */
  readonly onReleased: (queues: readonly string[]) => void;
};

type Input = Omit<ClaimInput, "takes">;

/** Sends the claims of one worker, each with its own lease id, and finds the jobs of a claim whose response was lost. */
export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #deadlineMs: number;
  readonly #ended = new AbortController();
  readonly #searches = new Set<Promise<void>>();
  /** How many claims in a row reached the database after their deadline. */
  #refusals = 0;

  constructor(options: ClaimerOptions) {
    this.#options = options;
    this.#deadlineMs = claimDeadlineMs([options.leaseMs, ...Object.values(options.kindLeaseMs)]);
  }

  /** Claim ready jobs, up to the limit of each queue; with floors, only those after them. */
  async ready(
    takes: ClaimInput["takes"],
    floors: readonly Floor[] | undefined,
    stopping: AbortSignal,
  ): Promise<ClaimedJob[]> {
    const { db, shares } = this.#options;
    return await this.#surely(
      (input, options) =>
        shares.isUsed
          ? this.#inShares({ ...input, takes }, floors, options)
          : claim(db, { ...input, takes }, floors, options),
      async (lost, sentAt) => await this.#keepFound(lost, sentAt, stopping),
    );
  }

  async #inShares(
    input: ClaimInput,
    floors: readonly Floor[] | undefined,
    options: RunOptions,
  ): Promise<ClaimedJob[]> {
    const { db, shares } = this.#options;
    const claimed = await claimInShares(db, input, floors, options);
    shares.confirmed(input.leaseId, claimed.shares);
    return claimed.jobs;
  }

  /** Claim ready jobs of one fair queue. */
  async fair(
    take: Pick<FairClaimInput, "queue" | "limit" | "turn" | "weights">,
    stopping: AbortSignal,
  ): Promise<FairClaim> {
    const { db } = this.#options;
    let last: FairClaim["last"] = null;
    const jobs = await this.#surely(
      async (input, options) => {
        const claimed = await claimFair(db, { ...input, ...take }, options);
        last = claimed.last;
        return claimed.jobs;
      },
      async (lost, sentAt) => await this.#keepFound(lost, sentAt, stopping),
    );
    return { jobs, last };
  }

  /** Claim ready jobs into reserved slots: of each queue, those of its take's priority or a smaller one. */
  async urgent(takes: ClaimInput["takes"], stopping: AbortSignal): Promise<ClaimedJob[]> {
    const { db } = this.#options;
    return await this.#surely(
      (input, options) => claimUrgent(db, { ...input, takes }, options),
      async (lost, sentAt) => await this.#keepFound(lost, sentAt, stopping),
    );
  }

  /** Claim ready jobs of one queue that have waited for long. */
  async aged(
    take: Pick<AgedClaimInput, "queue" | "limit" | "agingMs">,
    stopping: AbortSignal,
  ): Promise<ClaimedJob[]> {
    const { db } = this.#options;
    return await this.#surely(
      (input, options) => claimAged(db, { ...input, ...take }, options),
      async (lost, sentAt) => await this.#keepFound(lost, sentAt, stopping),
    );
  }

  /** Claim one job from crash quarantine. Only for a worker that runs nothing else. */
  async quarantined(stopping: AbortSignal): Promise<ClaimedJob | undefined> {
    const { db, scope } = this.#options;
    const { queues, patterns, excludedPatterns: excluded } = scope;
    const jobs = await this.#surely(
      (input, options) =>
        claimQuarantined(db, { ...input, queues, patterns, excluded, waitedMs: 0 }, options),
      (lost) => this.#find(lost, stopping),
    );
    return jobs[0];
  }

  /** Whether a job has been in crash quarantine for so long that this worker should make room for it. */
  async quarantinedWaits(waitedMs: number): Promise<boolean> {
    const { db, scope } = this.#options;
    const { kinds, queues, patterns, excludedPatterns: excluded } = scope;
    return await reserveQuarantined(db, { kinds, queues, patterns, excluded, waitedMs });
  }

  /** Queues in these ranges that have ready jobs of the kinds to claim. */
  async readyQueues(ranges: readonly QueueRange[]): Promise<ReadyQueues> {
    const { db, scope } = this.#options;
    return await findReadyQueues(db, { ranges, kinds: scope.kinds });
  }

  /** Resolves when no abandoned claim can hold a job any more, or `end` was called. */
  async idle(): Promise<void> {
    while (this.#searches.size > 0) await Promise.all(this.#searches);
  }

  /** The database connection is about to close: look for nothing more. */
  end(): void {
    this.#ended.abort();
  }

  /**
   * Send a claim with a deadline that both sides keep: the worker stops waiting for the response, and the database refuses the
   * claim if it arrives later. Jobs it took before that are looked for.
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

  /** Run the jobs of a lost claim. To its caller it has failed: its duration must not be taken for a round trip. */
  async #keepFound(claim: LostClaim, sentAt: number, stopping: AbortSignal): Promise<ClaimedJob[]> {
    const jobs = await this.#find(claim, stopping);
    // Awaited: the loop must not end, and with it a stop, before these jobs begin or are released.
    if (jobs.length > 0) await this.#options.onFound(jobs, sentAt);
    return [];
  }

  /** Jobs the claim took so far are ours while their leases last. Jobs it takes later are released. */
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

  /** No worker runs what the claim takes now. Release it, through any outage, so that it counts no crash. */
  async #release(claim: LostClaim): Promise<void> {
    const { db, onReleased } = this.#options;
    const { signal } = this.#ended;
    for (let left: Fence[] = []; !signal.aborted && (left.length > 0 || !claim.over);) {
      await sleep(claim.lookEveryMs, signal, { unref: true });
      if (signal.aborted) return;
      try {
        if (left.length === 0) left = (await claim.look()).map((job) => job.fence);
        if (left.length === 0) continue;
        const released = await releaseUnbegun(db, left, { deadlineMs: claim.deadlineMs });
        onReleased(released.queues);
        left = released.left;
        if (left.length === 0) return;
      } catch {
        // The database is unavailable. Ask again until nothing is left to be found.
      }
    }
  }

  #input(): Input {
    const { worker, scope, kindLeaseMs, leaseMs } = this.#options;
    return { worker, leaseId: randomUUID(), kinds: scope.kinds, kindLeaseMs, leaseMs };
  }
}
