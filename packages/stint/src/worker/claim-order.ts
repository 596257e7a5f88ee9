import { firstTurn, nextTurn, type Fair, type FairTurn, type TenantWeights } from "../model/fairness.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import type { ClaimOrderSetting } from "../sql/claim-order.ts";

/** The most queues whose turns are remembered. A pattern may match any number of queues. */
const mostQueues = 10_000;
/** One of so many jobs of a fair queue is the first by priority and time, whichever tenant it has. It may be one that no turn comes to. */
const oldestEvery = 32;

/** Jobs that were claimed in turns since the oldest ones were claimed, and the time that claims of the oldest ones take. */
type Oldest = { inTurn: number; readonly sweeps: Sweeps };

/**
 * In which order this worker claims which queue. In a fair queue, tenants take turns. Each worker has turns of its own: if each worker
 * serves the tenants by their weights, then all together do.
 */
export class ClaimOrder {
  #fair = new QueueMap<Fair>([]);
  #agingMs = new QueueMap<number>([]);
  #isPlain = true;
  readonly #turns = new Map<string, FairTurn>();
  readonly #oldest = new Map<string, Oldest>();

  /** These settings are in force. */
  learn(settings: readonly ClaimOrderSetting[]): void {
    this.#isPlain = settings.length === 0;
    this.#fair = new QueueMap(
      settings.flatMap(({ queue, fair }) => (fair === null ? [] : [[queue, fair] as const])),
    );
    this.#agingMs = new QueueMap(
      settings.flatMap(({ queue, agingMs }) => (agingMs === null ? [] : [[queue, agingMs] as const])),
    );
  }

  /** Whether every queue is claimed by priority and time. */
  get isPlain(): boolean {
    return this.#isPlain;
  }

  /** The weights of the tenants of a fair queue; undefined if the queue is not fair. */
  weightsOf(queue: string): TenantWeights | undefined {
    const fair = this.#fair.get(queue);
    return fair === undefined || fair === false ? undefined : fair.weights;
  }

  /** How long a job of this queue waits before it gets a share of the claims; undefined if the queue has no aging, or its tenants take turns. */
  agingOf(queue: string): number | undefined {
    const agingMs = this.#agingMs.get(queue);
    return agingMs === undefined || agingMs === 0 || this.weightsOf(queue) !== undefined
      ? undefined
      : agingMs;
  }

  /** Where the next claim of a fair queue begins. */
  turnOf(queue: string): FairTurn {
    return this.#turns.get(queue) ?? firstTurn;
  }

  /** Note how many jobs a claim took in turns, and the last tenant that it visited. `wasFull`: it took as many as it asked for. */
  visited(queue: string, last: FairTurn, jobs: number, wasFull: boolean): void {
    if (this.#turns.size >= mostQueues && !this.#turns.has(queue)) {
      this.#turns.clear();
      this.#oldest.clear();
    }
    this.#turns.set(queue, nextTurn(last, wasFull));
    const oldest = this.#oldest.get(queue);
    if (oldest === undefined) this.#oldest.set(queue, { inTurn: jobs, sweeps: new Sweeps() });
    else oldest.inTurn += jobs;
  }

  /**
   * How many jobs of a fair queue to claim by priority and time now. Such a claim begins at the head of the queue, where entries of taken jobs pile up
   * while some transaction stays open (docs/decisions/0009): these claims take 5 % of the time, and then make up for what they owe.
   */
  oldestDue(queue: string, at: number): number {
    const oldest = this.#oldest.get(queue);
    return oldest === undefined || oldest.sweeps.inMs(at) > 0
      ? 0
      : Math.floor(oldest.inTurn / (oldestEvery - 1));
  }

  /** The oldest jobs of a fair queue were claimed, or there was none. */
  oldestClaimed(queue: string, sentAt: number, at: number): void {
    const oldest = this.#oldest.get(queue);
    if (oldest === undefined) return;
    oldest.inTurn = 0;
    oldest.sweeps.done(sentAt, at);
  }
}
