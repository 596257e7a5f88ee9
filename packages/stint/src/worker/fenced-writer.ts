import type { Db } from "../db/db.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { isTransient } from "../db/transient.ts";
import { Coalescer } from "../runtime/coalescer.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { writeReports, type ProgressWrite, type ProgressWritten } from "../sql/progress.ts";
import { writeStepResults, type StepWrite, type StepWritten } from "../sql/steps.ts";

/** Characters of JSON in one statement. */
const heaviestBatch = 8_388_608;
/** How soon to try again after the row of the job was locked. */
const lockedMs = 5;

export type StepWriter = FencedWriter<StepWrite, StepWritten>;
export type ProgressWriter = FencedWriter<ProgressWrite, ProgressWritten>;

/** Remembers the finished steps of all attempts of a worker. */
export function stepWriter(db: Db): StepWriter {
  return new FencedWriter({
    send: async (steps) => await writeStepResults(db, steps),
    maxBatch: 500,
    weigh: ({ result }) => result?.length ?? 0,
    inFlight: 2,
  });
}

/** Stores what the handlers of a worker report. */
export function progressWriter(db: Db): ProgressWriter {
  return new FencedWriter({
    send: async (reports) => await writeReports(db, reports),
    maxBatch: 200,
    weigh: ({ checkpoint }) => checkpoint?.length ?? 0,
    inFlight: 1,
  });
}

type FencedWriterOptions<Item, Result> = {
  /** Writes each item only if its fence holds. Idempotent: it is sent again when its response is lost. */
  readonly send: (items: readonly Item[]) => Promise<Result[]>;
  readonly maxBatch: number;
  readonly weigh: (item: Item) => number;
  readonly inFlight: number;
};

/** Writes for handlers that continue running. Items that arrive while a round trip is in flight share the next one. */
export class FencedWriter<Item, Result extends string> {
  readonly #options: FencedWriterOptions<Item, Result>;
  readonly #coalescer: Coalescer<Item, Result>;
  readonly #ended = new AbortController();

  constructor(options: FencedWriterOptions<Item, Result>) {
    const { maxBatch, weigh, inFlight } = options;
    this.#options = options;
    this.#coalescer = new Coalescer({
      send: (items) => this.#send(items),
      maxBatch,
      weigh,
      maxWeight: heaviestBatch,
      inFlight,
    });
  }

  /** Resolves once the item is written, or can never be. While the database is unavailable, it waits. */
  async write(item: Item): Promise<Exclude<Result, "locked"> | "lost"> {
    for (let delayMs = lockedMs; ; delayMs = Math.min(delayMs * 2, 250)) {
      const result = await this.#coalescer.submit(item);
      if (result !== "locked") return result as Exclude<Result, "locked">;
      await sleep(delayMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return "lost";
    }
  }

  /** Retry no more: the worker has stopped. */
  end(): void {
    this.#ended.abort();
  }

  async #send(items: readonly Item[]): Promise<(Result | Error)[]> {
    const retryDelay = new RetryDelay();
    for (;;) {
      try {
        return await this.#options.send(items);
      } catch (error) {
        if (!isTransient(error)) {
          const isOne = items.length === 1 || dbErrorCategory(error) !== "data";
          return isOne ? items.map(() => error as Error) : await this.#oneByOne(items);
        }
        await sleep(retryDelay.next(), this.#ended.signal);
        if (this.#ended.signal.aborted) return items.map(() => error as Error);
      }
    }
  }

  /** The database refuses one item of the batch; the others must not fail with it. */
  async #oneByOne(items: readonly Item[]): Promise<(Result | Error)[]> {
    const results: (Result | Error)[] = [];
    for (const item of items) results.push(...(await this.#send([item])));
    return results;
  }
}
