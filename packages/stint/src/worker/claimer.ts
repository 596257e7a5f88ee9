import { randomUUID } from "node:crypto";
import { ConnectionLost, type Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import { isPattern } from "../model/queue-pattern.ts";
import { Recovery } from "../runtime/recovery.ts";
import { sleep } from "../runtime/sleep.ts";
import {
  claim,
  claimedBy,
  claimQuarantined,
  reserveQuarantined,
  type ClaimInput,
  type Floor,
} from "../sql/claim.ts";
import { findReadyQueues, type QueueRange, type ReadyQueues } from "../sql/ready-queues.ts";
import { putBack } from "../sql/settle.ts";
import { released } from "./verdict.ts";

export type ClaimerOptions = Pick<ClaimInput, "worker" | "kindLeaseMs" | "leaseMs"> & {
  /** The kinds to claim now. */
  readonly kinds: () => readonly string[];
  readonly db: Db;
  /** Names, and patterns. */
  readonly queues: readonly string[];
};

const lateEveryMs = 2_000;

/** Claims for one worker, each under a lease id of its own, and finds what a claim took whose answer was lost. */
export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #served: { readonly queues: readonly string[]; readonly patterns: readonly string[] };

  constructor(options: ClaimerOptions) {
    const { queues } = options;
    this.#options = options;
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
    const input = this.#input();
    return await this.#surely(input, () => claim(this.#options.db, { ...input, takes }, floors), stopping);
  }

  /** One job that is suspected of killing its worker. Only for a worker that runs nothing else. */
  async suspect(stopping: AbortSignal): Promise<ClaimedJob | undefined> {
    const { db } = this.#options;
    const input = this.#input();
    const send = (): Promise<ClaimedJob[]> =>
      claimQuarantined(db, { ...input, ...this.#served, waitedMs: 0 });
    return (await this.#surely(input, send, stopping))[0];
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

  /** A claim whose answer was lost may have taken jobs all the same. They are ours for as long as their lease lasts. */
  async #surely(
    input: Omit<ClaimInput, "takes">,
    send: () => Promise<ClaimedJob[]>,
    stopping: AbortSignal,
  ): Promise<ClaimedJob[]> {
    const until = performance.now() + input.leaseMs;
    const recovery = new Recovery();
    let lost: unknown;
    for (;;) {
      try {
        if (lost === undefined) return await send();
        const jobs = await claimedBy(this.#options.db, input);
        if (jobs.length === 0) void this.#giveBackLate(input, until, stopping);
        return jobs;
      } catch (error) {
        if (lost === undefined && !(error instanceof ConnectionLost)) throw error;
        lost = error;
        await sleep(recovery.next(), stopping);
        if (stopping.aborted || performance.now() > until) {
          void this.#giveBackLate(input, until, stopping);
          throw error;
        }
      }
    }
  }

  /**
   * The server may still be at it: a commit can stall for longer than anybody waits. What the claim takes after all
   * belongs to nobody; it goes back before its lease ends and counts a crash that never was.
   */
  async #giveBackLate(input: Omit<ClaimInput, "takes">, until: number, stopping: AbortSignal): Promise<void> {
    const { db } = this.#options;
    do {
      await sleep(lateEveryMs, stopping, { unref: true });
      try {
        const jobs = await claimedBy(db, input);
        if (jobs.length > 0) await putBack(db, jobs.map(released));
        if (jobs.length > 0) return;
      } catch {
        // The database is away; the lease decides how long this is worth trying.
      }
    } while (performance.now() < until && !stopping.aborted);
  }

  #input(): Omit<ClaimInput, "takes"> {
    const { worker, kinds, kindLeaseMs, leaseMs } = this.#options;
    return { worker, leaseId: randomUUID(), kinds: kinds(), kindLeaseMs, leaseMs };
  }
}
