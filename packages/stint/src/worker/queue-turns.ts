import type { Take } from "../sql/claim.ts";

/** The most queues of one pool that a claim asks. Pools with more, or with a pattern, are searched for ready queues first. */
export const maxQueuesPerClaim = 100;
/** While other queues of its pool have work, an empty queue is asked again after this: a busy worker receives no wakes. */
export const recheckEmptyMs = 500;

/**
 * Whose turn it is among the queues of one pool. Claims ask the queues that may have ready jobs, longest unasked first. A queue
 * that gave jobs goes to the end of the line, so that a busy queue cannot starve the others.
 */
export class QueueTurns {
  readonly #all: readonly string[] | undefined;
  readonly #excludes: (queue: string) => boolean;
  /** Queues that may have ready jobs, in the order of their turns. */
  readonly #line = new Set<string>();
  /** When a queue was found empty. Not kept for searched pools: they have too many queues. */
  readonly #emptyAt = new Map<string, number>();
  /** Queues hinted at since the last claim was sent: the claim's snapshot may be older than the hint. */
  readonly #hinted = new Set<string>();
  #isUnasked = false;

  /**
   * @param all Every queue of the pool, in the order listed; undefined if the pool is searched.
   * @param excludes Whether claims skip this queue now. It keeps its place in line.
   */
  constructor(all: readonly string[] | undefined, excludes: (queue: string) => boolean = () => false) {
    this.#all = all;
    this.#excludes = excludes;
    this.hintAll();
  }

  /** How many queues may have ready jobs. */
  get size(): number {
    return this.#line.size;
  }

  /** Whether some queue that may have ready jobs can be asked now. */
  get hasNext(): boolean {
    return this.#first() !== undefined;
  }

  /** Whether some queues were in line already when the last claim was sent, and it did not come to them. */
  get isUnasked(): boolean {
    return this.#isUnasked;
  }

  /** This queue may have ready jobs. */
  hint(queue: string): void {
    this.#line.add(queue);
    this.#emptyAt.delete(queue);
    this.#hinted.add(queue);
  }

  /** Every queue may have ready jobs. Does nothing for a searched pool. */
  hintAll(): void {
    for (const queue of this.#all ?? []) this.hint(queue);
  }

  /**
   * What a claim of so many jobs asks of which queue. Each queue that may have ready jobs gets an equal share; together they
   * get the limit of the pool.
   */
  takes(limit: number, at: number): Take[] {
    this.#hinted.clear();
    const inLine = this.#inLine();
    if (inLine.length === 0) return [];
    // First, and beside the shares of the others: these queues have had no turn for so long.
    const again = this.#emptyFor(recheckEmptyMs, at);
    const queues = [...again, ...inLine.slice(0, Math.max(0, maxQueuesPerClaim - again.length))];
    const [only] = queues;
    if (only !== undefined && queues.length === 1) return [{ queue: only, limit }];
    const share = Math.max(1, Math.ceil(limit / inLine.length));
    const pool = { limit };
    return queues.map((queue) => ({ queue, limit: share, pool }));
  }

  /** Note what a claim took from each queue it asked. Returns the queues that may have more. */
  claimed(takes: readonly Take[], got: ReadonlyMap<string, number>, at: number): string[] {
    const total = takes.reduce((sum, { queue }) => sum + (got.get(queue) ?? 0), 0);
    const isFull = total >= (takes[0]?.pool ?? takes[0] ?? { limit: 0 }).limit;
    const last = takes.findLastIndex(({ queue }) => got.has(queue));
    const left: string[] = [];
    for (const [index, { queue, limit }] of takes.entries()) {
      // The claim was full before it came to these.
      if (isFull && index > last) break;
      const mayHaveMore = (got.get(queue) ?? 0) >= limit || (isFull && index === last);
      if (mayHaveMore) left.push(queue);
      this.#line.delete(queue);
      this.#emptyAt.delete(queue);
      if (mayHaveMore || this.#hinted.has(queue)) this.#line.add(queue);
      else if (this.#all !== undefined) this.#emptyAt.set(queue, at);
    }
    const next = this.#first();
    this.#isUnasked = next !== undefined && !left.includes(next) && !this.#hinted.has(next);
    return left;
  }

  #first(): string | undefined {
    for (const queue of this.#line) if (!this.#excludes(queue)) return queue;
    return undefined;
  }

  #inLine(): string[] {
    const queues: string[] = [];
    for (const queue of this.#line) {
      if (queues.length >= maxQueuesPerClaim) break;
      if (!this.#excludes(queue)) queues.push(queue);
    }
    return queues;
  }

  #emptyFor(ms: number, at: number): string[] {
    const queues: string[] = [];
    for (const [queue, emptyAt] of this.#emptyAt)
      if (at - emptyAt >= ms && !this.#excludes(queue)) queues.push(queue);
    return queues;
  }
}
