import { AsyncLocalStorage } from "node:async_hooks";
import type { JobTypes } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import type { Outcome } from "../model/outcome.ts";
import { addedByMiddlewares } from "./call-handler.ts";
import { plainNames } from "./context-names.ts";
import type { HandlerContext, ResolvedBatch } from "./handler.ts";

/** One call of the handler for several jobs. */
export type BatchHandlerOptions = {
  /** The most jobs of one call. Each takes a slot, so the pool must have as many. */
  size: number;
  /** How long the first job waits for others. It counts towards the timeout of the job. Default 100 ms. */
  wait?: Duration;
};

/** Why the signal of a job aborts that is paused, or expires, while it waits for others. */
export const leftBatch =
  "The job was paused or has expired before its batch began; it is released and no attempt is spent.";

/** What an item has of the context of its job. Steps and sleeps belong to handlers of single jobs. */
const itemNames = [...plainNames, "signal", "logger", "complete"] as const satisfies (keyof HandlerContext)[];

/** One job of a batch. */
export type BatchItem<Payload = unknown, Result = unknown> = Pick<
  HandlerContext<Payload, Result>,
  (typeof itemNames)[number]
> & {
  /** Decide this job now: its result, or `snooze(…)`, `cancel(…)` or `park(…)`. The first decision counts. */
  readonly done: (value?: Result | Outcome) => void;
  /** This job failed. The others continue. */
  readonly fail: (error: unknown) => void;
};

/**
 * Handles several jobs at once. A job without a decision takes its place in the returned array (an Error fails it); without an array it
 * succeeds. If the function throws, only the jobs without a decision fail.
 */
export type BatchFunction<Item, Result> = (
  items: readonly Item[],
) => Promise<BatchResults<Result>> | BatchResults<Result>;

type BatchResults<Result> = void | readonly (Result | Outcome | Error)[];

export type BatchOf<Types extends JobTypes, Added> = BatchFunction<
  BatchItem<Types["out"], Types["result"]> & Added,
  Types["result"]
>;

export function resolveBatch(option: string, batch: unknown): ResolvedBatch {
  if (typeof batch !== "object" || batch === null)
    throw new InvalidOptionError(option, `must be { size, wait }, got ${describe(batch)}`);
  refuseUnknownKeys(option, batch, ["size", "wait"]);
  const { size, wait } = batch as Partial<BatchHandlerOptions>;
  return {
    size: requireInteger(`${option}.size`, size, { min: 1, max: 10_000 }),
    waitMs: toMs(wait ?? 100, `${option}.wait`, { max: 3_600_000 }),
  };
}

type Entry = {
  readonly item: BatchItem;
  isDecided: boolean;
  readonly settle: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * Gathers the jobs of one kind in one worker, and calls the handler with several of them. Each job stays an attempt of its own: its slot,
 * lease, timeout, signal, middlewares and outcome are those of any job.
 *
 * A job that has failed before runs in a call of its own: one job that makes every call throw must not use up the attempts of the others.
 */
export class BatchCollector {
  readonly #batch: ResolvedBatch;
  readonly #run: BatchFunction<never, unknown>;
  #waiting: Entry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #enter: (<T>(call: () => T) => T) | undefined;

  constructor(batch: ResolvedBatch, run: BatchFunction<never, unknown>) {
    this.#batch = batch;
    this.#run = run;
  }

  /** Resolves or rejects as this job is decided. */
  add(context: HandlerContext): Promise<unknown> {
    return new Promise((settle, reject) => {
      const entry = makeEntry(context, settle, reject);
      if (context.attempt > 1) void this.#call([entry]);
      else this.#gather(entry);
    });
  }

  /** Whether this job waits for others, and its call has not begun. */
  isGathering(id: string): boolean {
    return this.#waiting.some(({ item }) => item.id === id);
  }

  #gather(entry: Entry): void {
    if (this.#waiting.push(entry) === 1) {
      // The call belongs to the trace and the context of its first job.
      this.#enter = AsyncLocalStorage.snapshot();
      this.#timer = setTimeout(() => this.#flush(), this.#batch.waitMs);
    }
    // A job that is cancelled, or whose worker stops, must not begin.
    const { signal } = entry.item;
    signal.addEventListener("abort", () => this.#abort(entry, signal.reason), { once: true });
    if (this.#waiting.length >= this.#batch.size) this.#flush();
  }

  #abort(entry: Entry, reason: unknown): void {
    const index = this.#waiting.indexOf(entry);
    if (index === -1) return;
    this.#waiting.splice(index, 1);
    entry.reject(reason);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    const entries = this.#waiting;
    const enter = this.#enter;
    this.#waiting = [];
    if (entries.length > 0)
      void (enter === undefined ? this.#call(entries) : enter(() => this.#call(entries)));
  }

  async #call(entries: readonly Entry[]): Promise<void> {
    try {
      const run = this.#run as BatchFunction<BatchItem, unknown>;
      const results = await run(entries.map(({ item }) => item));
      const values = results === undefined ? [] : requireResults(results, entries);
      for (const [index, entry] of entries.entries()) {
        const value = values[index];
        if (value instanceof Error) decide(entry, () => entry.reject(value));
        else decide(entry, () => entry.settle(value));
      }
    } catch (error) {
      for (const entry of entries) decide(entry, () => entry.reject(error));
    }
  }
}

function makeEntry(
  context: HandlerContext,
  settle: (value: unknown) => void,
  reject: (error: unknown) => void,
): Entry {
  const entry: Entry = {
    item: {
      ...(Object.fromEntries(itemNames.map((name) => [name, context[name]])) as HandlerContext),
      ...addedByMiddlewares(context),
      done: (value) => decide(entry, () => settle(value)),
      fail: (error) => decide(entry, () => reject(error)),
    },
    isDecided: false,
    settle,
    reject,
  };
  return entry;
}

function decide(entry: Entry, how: () => void): void {
  if (entry.isDecided) return;
  entry.isDecided = true;
  how();
}

function requireResults(results: unknown, entries: readonly Entry[]): readonly unknown[] {
  if (Array.isArray(results) && results.length === entries.length) return results;
  throw new InvalidOptionError(
    "batch",
    `its handler must return nothing, or one value for each of ${entries.length} jobs, got ${
      Array.isArray(results) ? `${results.length} values` : describe(results)
    }`,
  );
}
