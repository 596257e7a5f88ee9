import { Attempts } from "./attempts.ts";
import { Histogram } from "./histogram.ts";
import { Tenants } from "./tenants.ts";

/** What one process did with the jobs of one kind in one queue, since it began. Only ever grows. */
export type KindMeter = {
  readonly queue: string;
  readonly kind: string;
  claimed: number;
  succeeded: number;
  /** Attempts that failed, whatever became of the job. */
  failed: number;
  timedOut: number;
  retried: number;
  dead: number;
  cancelled: number;
  snoozed: number;
  released: number;
  /** Leases of others that ran out, taken back from here. */
  rescued: number;
  /** Outcomes refused because the job was somebody else's by then. */
  leaseLost: number;
  /** Attempts that were called slow while they ran. */
  slow: number;
  /** Attempts spent by the jobs that succeeded. */
  attemptsOfSucceeded: number;
  /** How many of them each took. */
  readonly attempts: Attempts;
  /** From when the job could have run to its claim. */
  readonly wait: Histogram;
  /** From the start of the handler to its end. */
  readonly run: Histogram;
};

/** Pairs of queue and kind that are told apart. The queues that a pool's pattern matches are without number. */
const mostPairs = 10_000;
/** The queue under which the others are counted, which is the name of none: names do not begin like this. */
const otherQueues = "*";

/** Counts in memory: the hot path pays a look-up and an addition. */
export class Meter {
  readonly tenants = new Tenants();
  readonly #kinds = new Map<string, KindMeter>();

  of(queue: string, kind: string): KindMeter {
    const name = `${queue}\n${kind}`;
    let found = this.#kinds.get(name);
    if (found === undefined) {
      if (this.#kinds.size >= mostPairs && queue !== otherQueues) return this.of(otherQueues, kind);
      found = {
        queue,
        kind,
        claimed: 0,
        succeeded: 0,
        failed: 0,
        timedOut: 0,
        retried: 0,
        dead: 0,
        cancelled: 0,
        snoozed: 0,
        released: 0,
        rescued: 0,
        leaseLost: 0,
        slow: 0,
        attemptsOfSucceeded: 0,
        attempts: new Attempts(),
        wait: new Histogram(),
        run: new Histogram(),
      };
      this.#kinds.set(name, found);
    }
    return found;
  }

  kinds(): readonly KindMeter[] {
    return [...this.#kinds.values()];
  }
}
