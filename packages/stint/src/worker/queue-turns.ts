import type { Take } from "../sql/claim.ts";

/** How many queues of one pool a claim may ask. A pool of more, or with a pattern, is searched for those that have ready jobs. */
export const maxQueuesPerClaim = 100;
/** While others of its pool have work, a queue that had none is asked again after this: a busy worker hears no wakes. */
export const recheckEmptyMs = 500;

/**
 * Whose turn it is among the queues of one pool. Claims ask the queues that may have ready jobs, the one that was not asked for the
 * longest first; one that gave jobs goes to the end of the line, so that no queue waits for ever behind a busy one.
 */
export class QueueTurns {
  readonly #all: readonly string[] | undefined;
  /** Queues that may have ready jobs, in the order of their turns. */
  readonly #line = new Set<string>();
  /** When a queue was found to have no ready jobs. Not kept for a pool that is searched: it has too many queues. */
  readonly #emptyAt = new Map<string, number>();
  /** Queues that were hinted at since the last claim was sent: its answer may be older than the hint. */
  readonly #hinted = new Set<string>();

  #isUnasked = false;

  /** @param all Every queue of the pool, in the order listed; undefined if it is searched. */
  constructor(all: readonly string[] | undefined) {
    this.#all = all;
    this.hintAll();
  }

  /** How many queues may have ready jobs. */
  get size(): number {
    return this.#line.size;
  }

  /** Whether some were in line already when the last claim was sent, and it did not come to them. */
  get isUnasked(): boolean {
    return this.#isUnasked;
  }

  /** This queue may have ready jobs. */
  hint(queue: string): void {
    this.#line.add(queue);
    this.#emptyAt.delete(queue);
    this.#hinted.add(queue);
  }

  /** Every queue may have ready jobs. Says nothing of a pool that is searched. */
  hintAll(): void {
    for (const queue of this.#all ?? []) this.hint(queue);
  }

  /**
   * What a claim of so many jobs asks of which queue. Each queue that may have ready jobs has an equal share, and together they
   * have the limit of the pool.
   */
  takes(limit: number, at: number): Take[] {
    this.#hinted.clear();
    const queues = this.#next(at);
    const [only] = queues;
    if (only === undefined) return [];
    if (queues.length === 1) return [{ queue: only, limit }];
    const share = Math.max(1, Math.ceil(limit / Math.min(this.#line.size, maxQueuesPerClaim)));
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
      // The claim ended before it came to these.
      if (isFull && index > last) break;
      const mayHaveMore = (got.get(queue) ?? 0) >= limit || (isFull && index === last);
      if (mayHaveMore) left.push(queue);
      this.#line.delete(queue);
      this.#emptyAt.delete(queue);
      if (mayHaveMore || this.#hinted.has(queue)) this.#line.add(queue);
      else if (this.#all !== undefined) this.#emptyAt.set(queue, at);
    }
    const [next] = this.#line;
    this.#isUnasked = next !== undefined && !left.includes(next) && !this.#hinted.has(next);
    return left;
  }

  #next(at: number): string[] {
    const queues: string[] = [];
    if (this.#line.size === 0) return queues;
    // First, and besides the shares of the others: they have had no turn for so long.
    for (const [queue, emptyAt] of this.#emptyAt) if (at - emptyAt >= recheckEmptyMs) queues.push(queue);
    for (const queue of this.#line) {
      if (queues.length >= maxQueuesPerClaim) break;
      queues.push(queue);
    }
    return queues;
  }
}
