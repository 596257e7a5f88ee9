import type { ClaimedJob } from "../model/job.ts";
import type { Take } from "../sql/claim.ts";
import type { ClaimOrder } from "./claim-order.ts";
import type { Claimer } from "./claimer.ts";

/** The part of the claims of a queue that goes to old jobs, while there are any. docs/guides/fairness.md states it. */
const share = 1 / 4;
/** What each job of another claim owes to old ones, so that they get that part of all. */
const owedByOthers = share / (1 - share);
/** How often to look for old jobs while there are none. */
const lookEveryMs = 1_000;

export type AgedClaimsOptions = {
  readonly order: ClaimOrder;
  readonly claimer: Pick<Claimer, "aged">;
  /** A claim returned these jobs. `sentAt` is from before it. */
  readonly onClaimed: (take: Take, jobs: readonly ClaimedJob[], sentAt: number) => Promise<void>;
  readonly now: () => number;
};

/** The jobs that a queue owes to old ones, and when to look for them again. */
type Owed = { jobs: number; lookAt: number };

/** Claims the old jobs of queues with aging, before the others take the rest of the room. */
export class AgedClaims {
  readonly #options: AgedClaimsOptions;
  readonly #owed = new Map<string, Owed>();

  constructor(options: AgedClaimsOptions) {
    this.#options = options;
  }

  /** How many old jobs to claim before a claim of so many. */
  #due(queue: string, limit: number, at: number): number {
    let owed = this.#owed.get(queue);
    if (owed === undefined) this.#owed.set(queue, (owed = { jobs: 1, lookAt: at }));
    return at < owed.lookAt ? 0 : Math.min(Math.floor(owed.jobs), limit);
  }

  /** A claim by priority returned these jobs. Counting the jobs, and not the room for them, keeps the share exact however often slots are free. */
  othersClaimed(jobs: readonly Pick<ClaimedJob, "queue">[]): void {
    const at = this.#options.now();
    for (const { queue } of jobs) {
      const owed = this.#owed.get(queue);
      if (owed !== undefined && at >= owed.lookAt) owed.jobs += owedByOthers;
    }
  }

  /** Claim the share of old jobs of this take, if its queue has aging. Returns how many; undefined if it did not ask. */
  async claim(take: Take, stopping: AbortSignal): Promise<number | undefined> {
    const { order, claimer, onClaimed, now } = this.#options;
    const { queue, limit } = take;
    const agingMs = order.agingOf(queue);
    if (agingMs === undefined) return undefined;
    const sentAt = now();
    const due = this.#due(queue, limit, sentAt);
    if (due === 0) return undefined;
    const jobs = await claimer.aged({ queue, limit: due, agingMs }, stopping);
    if (jobs.length < due) this.#owed.set(queue, { jobs: 1, lookAt: now() + lookEveryMs });
    else this.#owed.set(queue, { jobs: (this.#owed.get(queue)?.jobs ?? due) - due, lookAt: sentAt });
    if (jobs.length > 0) await onClaimed({ ...take, limit: due }, jobs, sentAt);
    return jobs.length;
  }
}
