import { countsBy, type Counts } from "../model/counters.ts";
import { Attempts } from "./attempts.ts";
import { Histogram } from "./histogram.ts";
import { Tenants } from "./tenants.ts";

/** What one process did with the jobs of one kind in one queue since it started. Counts only grow. */
export type KindMeter = Counts & {
  readonly queue: string;
  readonly kind: string;
  /** How many attempts each succeeded job took. */
  readonly attempts: Attempts;
  /** From the time a job could have run to its claim. */
  readonly wait: Histogram;
  /** From the start of the handler to its end. */
  readonly run: Histogram;
};

/** Pairs of queue and kind with counts of their own. A pool's pattern can match any number of queues, so memory needs a bound. */
const mostPairs = 10_000;
/** The queue under which further pairs are counted. No queue can have this name. */
const otherQueues = "*";
const zero: Counts = countsBy(() => 0);

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
        ...zero,
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
