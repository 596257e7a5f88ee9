import type { ClaimedJob } from "../model/job.ts";
import type { Take } from "../sql/claim.ts";
import type { ClaimOrder } from "./claim-order.ts";
import type { Claimer } from "./claimer.ts";

export type FairClaimsOptions = {
  readonly order: ClaimOrder;
  readonly claimer: Pick<Claimer, "ready" | "fair">;
  /** A claim returned these jobs. `sentAt` is from before it. They are the caller's, whatever the next claim brings. */
  readonly onClaimed: (take: Take, jobs: readonly ClaimedJob[], sentAt: number) => Promise<void>;
  readonly now: () => number;
};

/** Claims from queues whose tenants take turns. */
export class FairClaims {
  readonly #options: FairClaimsOptions;

  constructor(options: FairClaimsOptions) {
    this.#options = options;
  }

  /** Whether the tenants of this queue take turns. */
  isFair({ queue }: Take): boolean {
    return this.#options.order.weightsOf(queue) !== undefined;
  }

  /**
   * Claim for one fair queue, at most what the take asks for. Jobs that no turn comes to (enqueued by a transaction that did not see the setting yet)
   * are claimed when no tenant has a ready job, and one in so many jobs. Returns how many jobs it claimed.
   */
  async claim(take: Take, stopping: AbortSignal): Promise<number> {
    const { order, now } = this.#options;
    const due = Math.min(order.oldestDue(take.queue, now()), take.limit);
    let first = 0;
    if (due > 0) {
      first = await this.#oldest({ ...take, limit: due }, stopping);
      if (first === 0 || first === take.limit) return first;
    }
    const rest = { ...take, limit: take.limit - first };
    const inTurn = await this.#inTurn(rest, stopping);
    return first + (inTurn > 0 ? inTurn : await this.#oldest(rest, stopping));
  }

  async #inTurn(take: Take, stopping: AbortSignal): Promise<number> {
    const { order, claimer, onClaimed, now } = this.#options;
    const { queue, limit } = take;
    const sentAt = now();
    const fair = { queue, limit, turn: order.turnOf(queue), weights: order.weightsOf(queue) ?? {} };
    const { jobs, last } = await claimer.fair(fair, stopping);
    if (last !== null) order.visited(queue, last, jobs.length, jobs.length >= limit);
    if (jobs.length > 0) await onClaimed(take, jobs, sentAt);
    return jobs.length;
  }

  async #oldest(take: Take, stopping: AbortSignal): Promise<number> {
    const { order, claimer, onClaimed, now } = this.#options;
    const sentAt = now();
    const { queue, limit } = take;
    const jobs = await claimer.ready([{ queue, limit }], undefined, stopping);
    order.oldestClaimed(queue, sentAt, now());
    await onClaimed(take, jobs, sentAt);
    return jobs.length;
  }
}
