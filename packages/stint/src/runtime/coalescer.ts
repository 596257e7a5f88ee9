export type CoalescerOptions<Item, Result> = {
  /** Returns one result per item, in order. An Error in a position fails only the caller of that item. */
  send(items: Item[]): Promise<(Result | Error)[]>;
  maxBatch: number;
  /** The weight of an item, and the largest total weight of one send. A heavier item is sent alone. */
  weigh?: (item: Item) => number;
  maxWeight?: number;
  /** How many sends may be in flight at once. Default 1. */
  inFlight?: number;
  /** When an idle coalescer sends: after the code that submits the first item, or after this turn of the event loop. Default `at once`. */
  sends?: "at once" | "after turn";
  /** How many milliseconds to wait for more items after a send, by its number of items and its duration. Default 0. */
  rest?: (tookMs: number, size: number) => number;
  /** Called when a callback of `add` throws. Only the item of that callback is affected. */
  onCallbackError?: (error: unknown) => void;
};

type Waiting<Item, Result> = {
  item: Item;
  resolve: (result: Result, item: Item) => void;
  reject: (error: unknown, item: Item) => void;
};

/**
 * Combines many small requests into few large ones without delaying any.
 *
 * An idle coalescer sends an item at once, together with the other items submitted by the same code.
 * Items submitted during a send wait and are sent together when it returns. So a single caller pays no
 * delay, and a thousand callers share a round trip. Where no caller waits for the result, a send after
 * the turn and a pause after each small send let more items collect.
 */
export class Coalescer<Item, Result> {
  readonly #send: (items: Item[]) => Promise<(Result | Error)[]>;
  readonly #maxBatch: number;
  readonly #weigh: (item: Item) => number;
  readonly #maxWeight: number;
  readonly #maxOut: number;
  readonly #isAfterTurn: boolean;
  readonly #rest: (tookMs: number, size: number) => number;
  readonly #onCallbackError: (error: unknown) => void;
  #restUntil = 0;
  /** Ends the rest. There is none while no item waits: a timer for each small send would wake an almost idle process. */
  #resting: NodeJS.Timeout | undefined;
  #queue: Waiting<Item, Result>[] = [];
  #out = 0;
  #scheduled = false;
  #idleWaiters: (() => void)[] = [];

  constructor(options: CoalescerOptions<Item, Result>) {
    this.#send = (items) => options.send(items);
    this.#maxBatch = options.maxBatch;
    this.#weigh = options.weigh ?? (() => 0);
    this.#maxWeight = options.maxWeight ?? Number.POSITIVE_INFINITY;
    this.#maxOut = options.inFlight ?? 1;
    this.#isAfterTurn = options.sends === "after turn";
    this.#rest = options.rest ?? (() => 0);
    this.#onCallbackError = options.onCallbackError ?? (() => undefined);
  }

  /** Resolves with the result of this item. */
  submit(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => this.add(item, resolve, reject));
  }

  /** The same with callbacks, for callers with many items that avoid one promise per item. The callbacks get the item. */
  add(
    item: Item,
    resolve: (result: Result, item: Item) => void,
    reject: (error: unknown, item: Item) => void,
  ): void {
    this.#queue.push({ item, resolve, reject });
    if (this.#scheduled || this.#out >= this.#maxOut) return;
    if (this.#mustRest()) return;
    this.#scheduled = true;
    if (this.#isAfterTurn) return void setImmediate(this.#flushScheduled);
    // Deferred by a microtask: a loop that submits a hundred items would otherwise send the first one alone.
    // Not by queueMicrotask, which makes an async resource for every call.
    void nextMicrotask.then(this.#flushScheduled);
  }

  readonly #flushScheduled = (): void => {
    this.#scheduled = false;
    this.#flush();
  };

  /** Resolves when no item is queued or in flight. */
  idle(): Promise<void> {
    if (this.#queue.length === 0 && this.#out === 0) return Promise.resolve();
    // A caller that waits for the end must not wait for the pause between sends.
    this.#endRest();
    this.#flush();
    return new Promise((resolve) => this.#idleWaiters.push(resolve));
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#out < this.#maxOut) {
      void this.#sendBatch(this.#queue.splice(0, this.#nextSize()));
    }
    if (this.#queue.length > 0 || this.#out > 0) return;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }

  #nextSize(): number {
    const most = Math.min(this.#queue.length, this.#maxBatch);
    let weight = 0;
    for (let size = 0; size < most; size++) {
      weight += this.#weigh((this.#queue[size] as Waiting<Item, Result>).item);
      if (weight > this.#maxWeight) return Math.max(size, 1);
    }
    return most;
  }

  /** Whether the waiting items should wait for more. They are sent at the end of the rest. */
  #mustRest(): boolean {
    if (this.#restUntil === 0 || this.#queue.length >= this.#maxBatch) return false;
    const leftMs = this.#restUntil - performance.now();
    if (leftMs <= 0) return false;
    this.#resting ??= setTimeout(() => {
      this.#endRest();
      this.#flush();
    }, leftMs);
    return true;
  }

  #endRest(): void {
    clearTimeout(this.#resting);
    this.#resting = undefined;
    this.#restUntil = 0;
  }

  async #sendBatch(batch: Waiting<Item, Result>[]): Promise<void> {
    this.#out++;
    const sentAt = performance.now();
    try {
      const results = await this.#resultsOf(batch);
      // By index: thousands of items a second pass here.
      for (let index = 0; index < batch.length; index++) {
        const { item, resolve, reject } = batch[index] as Waiting<Item, Result>;
        const result = results[index];
        // A callback that throws must not keep the other items from their results, nor turn those into failures.
        try {
          if (result instanceof Failed) reject(result.error, item);
          else if (result instanceof Error) reject(result, item);
          else resolve(result as Result, item);
        } catch (error) {
          this.#onCallbackError(error);
        }
      }
    } finally {
      this.#out--;
      const now = performance.now();
      const restMs = this.#idleWaiters.length > 0 ? 0 : this.#rest(now - sentAt, batch.length);
      this.#endRest();
      if (restMs > 0) this.#restUntil = now + restMs;
      if (this.#queue.length === 0 || !this.#mustRest()) this.#flush();
    }
  }

  async #resultsOf(batch: readonly Waiting<Item, Result>[]): Promise<(Result | Error | Failed)[]> {
    try {
      const results = await this.#send(batch.map(({ item }) => item));
      if (results.length === batch.length) return results;
      throw new Error(`A batch of ${batch.length} items got ${results.length} results`);
    } catch (error) {
      const failed = new Failed(error);
      return batch.map(() => failed);
    }
  }
}

const nextMicrotask = Promise.resolve();

/** The reason why the whole send failed; it may be any thrown value. */
class Failed {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}
