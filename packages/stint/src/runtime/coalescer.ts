export type CoalescerOptions<Item, Result> = {
  /** Answer for each item, in order. An Error in a place fails only the caller of that item. */
  send(items: Item[]): Promise<(Result | Error)[]>;
  maxBatch: number;
  /** How heavy an item is, and what one send may weigh together. An item that is heavier goes alone. */
  weigh?: (item: Item) => number;
  maxWeight?: number;
  /** How many sends may be out at once. 1 when left out. */
  inFlight?: number;
  /** How long to gather after a send of so many items that took so long, in milliseconds. Not at all when left out. */
  rest?: (tookMs: number, size: number) => number;
  /** A callback of `add` threw. Only its own item is concerned. */
  onCallbackError?: (error: unknown) => void;
};

type Waiting<Item, Result> = {
  item: Item;
  resolve: (result: Result, item: Item) => void;
  reject: (error: unknown, item: Item) => void;
};

/**
 * Turns many small requests into few large ones without ever waiting for company.
 *
 * An item submitted while nothing is out goes out at once, with whatever else was submitted in the same
 * turn. Items submitted while a send is out gather, and go out together the moment it returns. So one
 * caller pays no delay, and a thousand callers share a round trip. Where nobody waits for the answer, a rest
 * after each small send lets more of them gather.
 */
export class Coalescer<Item, Result> {
  readonly #send: (items: Item[]) => Promise<(Result | Error)[]>;
  readonly #maxBatch: number;
  readonly #weigh: (item: Item) => number;
  readonly #maxWeight: number;
  readonly #maxOut: number;
  readonly #rest: (tookMs: number, size: number) => number;
  readonly #onCallbackError: (error: unknown) => void;
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
    this.#rest = options.rest ?? (() => 0);
    this.#onCallbackError = options.onCallbackError ?? (() => undefined);
  }

  /** Resolves with the answer for this item. */
  submit(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => this.add(item, resolve, reject));
  }

  /** The same, for those who have many and can do without a promise for each. The callbacks are given the item. */
  add(
    item: Item,
    resolve: (result: Result, item: Item) => void,
    reject: (error: unknown, item: Item) => void,
  ): void {
    this.#queue.push({ item, resolve, reject });
    if (this.#scheduled || this.#out >= this.#maxOut) return;
    if (this.#resting !== undefined && this.#queue.length < this.#maxBatch) return;
    this.#scheduled = true;
    // Not at once: a loop that submits a hundred items would send the first of them alone.
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  /** Resolves when nothing is queued and nothing is out. */
  idle(): Promise<void> {
    if (this.#queue.length === 0 && this.#out === 0) return Promise.resolve();
    // Whoever waits for the end should not wait for company.
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

  #startRest(ms: number): void {
    if (ms <= 0 || this.#idleWaiters.length > 0) return;
    this.#endRest();
    this.#resting = setTimeout(() => {
      this.#endRest();
      this.#flush();
    }, ms);
  }

  #endRest(): void {
    clearTimeout(this.#resting);
    this.#resting = undefined;
  }

  async #sendBatch(batch: Waiting<Item, Result>[]): Promise<void> {
    this.#out++;
    const sentAt = performance.now();
    try {
      const answers = await this.#answersOf(batch);
      for (const [index, { item, resolve, reject }] of batch.entries()) {
        const answer = answers[index];
        // One callback that throws must not keep the others from their answers, nor make failures of them.
        try {
          if (answer instanceof Failed) reject(answer.error, item);
          else if (answer instanceof Error) reject(answer, item);
          else resolve(answer as Result, item);
        } catch (error) {
          this.#onCallbackError(error);
        }
      }
    } finally {
      this.#out--;
      this.#startRest(this.#rest(performance.now() - sentAt, batch.length));
      if (this.#resting === undefined || this.#queue.length >= this.#maxBatch) this.#flush();
    }
  }

  async #answersOf(batch: readonly Waiting<Item, Result>[]): Promise<(Result | Error | Failed)[]> {
    try {
      const answers = await this.#send(batch.map(({ item }) => item));
      if (answers.length === batch.length) return answers;
      throw new Error(`A batch of ${batch.length} items got ${answers.length} answers`);
    } catch (error) {
      const failed = new Failed(error);
      return batch.map(() => failed);
    }
  }
}

/** What the whole send failed with, which need not be an Error. */
class Failed {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}
