import { byClaimOrder } from "../sql/rows.ts";
import type { LeasedJob } from "./claim-leases.ts";

/** Jobs of one pool that wait for a slot: in claim order within a queue, in the order of the turns in a fair one, and queues take turns. */
export class WaitingList {
  readonly #byQueue = new Map<string, LeasedJob[]>();
  readonly #isFair: (queue: string) => boolean;
  #size = 0;

  /** @param isFair Whether tenants take turns in this queue: its jobs stay as they were claimed. */
  constructor(isFair: (queue: string) => boolean = () => false) {
    this.#isFair = isFair;
  }

  get size(): number {
    return this.#size;
  }

  add(jobs: readonly LeasedJob[]): void {
    const disordered = new Set<LeasedJob[]>();
    for (const entry of jobs) {
      const { queue } = entry.job;
      let own = this.#byQueue.get(queue);
      if (own === undefined) this.#byQueue.set(queue, (own = []));
      const last = own.at(-1);
      if (last !== undefined && byClaimOrder(last.job, entry.job) > 0 && !this.#isFair(queue))
        disordered.add(own);
      own.push(entry);
    }
    for (const own of disordered) own.sort((a, b) => byClaimOrder(a.job, b.job));
    this.#size += jobs.length;
  }

  /** The next job, of the queue whose turn it is. */
  shift(): LeasedJob | undefined {
    for (const [queue, own] of this.#byQueue) {
      const entry = own.shift();
      if (own.length === 0 || this.#byQueue.size > 1) this.#byQueue.delete(queue);
      if (own.length > 0) this.#byQueue.set(queue, own);
      this.#size -= 1;
      return entry;
    }
    return undefined;
  }

  /** Take out the jobs for which this holds. */
  remove(which: (entry: LeasedJob) => boolean): LeasedJob[] {
    const removed: LeasedJob[] = [];
    for (const [queue, own] of this.#byQueue) {
      const going = own.filter(which);
      if (going.length === 0) continue;
      removed.push(...going);
      if (going.length === own.length) this.#byQueue.delete(queue);
      else
        this.#byQueue.set(
          queue,
          own.filter((entry) => !which(entry)),
        );
    }
    this.#size -= removed.length;
    return removed;
  }
}
