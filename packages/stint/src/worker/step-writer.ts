import type { Db } from "../db/db.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { isTransient } from "../db/transient.ts";
import { Coalescer } from "../runtime/coalescer.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { writeStepResults, type StepWrite, type StepWritten } from "../sql/steps.ts";

const largestBatch = 500;
/** Characters of results in one statement. */
const heaviestBatch = 8_388_608;
/** How soon to try again after the row of the job was locked. */
const lockedMs = 5;

/** Remembers the steps of all attempts of a worker. Steps that end while a round trip is in flight share the next one. */
export class StepWriter {
  readonly #db: Db;
  readonly #coalescer: Coalescer<StepWrite, StepWritten>;
  readonly #ended = new AbortController();

  constructor(db: Db) {
    this.#db = db;
    this.#coalescer = new Coalescer({
      send: (steps) => this.#send(steps),
      maxBatch: largestBatch,
      weigh: ({ result }) => result?.length ?? 0,
      maxWeight: heaviestBatch,
      inFlight: 2,
    });
  }

  /** Resolves once the step is remembered, or can never be. While the database is unavailable, it waits. */
  async write(step: StepWrite): Promise<Exclude<StepWritten, "locked">> {
    for (let delayMs = lockedMs; ; delayMs = Math.min(delayMs * 2, 250)) {
      const answer = await this.#coalescer.submit(step);
      if (answer !== "locked") return answer;
      await sleep(delayMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return "lost";
    }
  }

  /** Retry no more: the worker has stopped. */
  end(): void {
    this.#ended.abort();
  }

  async #send(steps: readonly StepWrite[]): Promise<(StepWritten | Error)[]> {
    const retryDelay = new RetryDelay();
    for (;;) {
      try {
        return await writeStepResults(this.#db, steps);
      } catch (error) {
        if (!isTransient(error)) {
          const isOne = steps.length === 1 || dbErrorCategory(error) !== "data";
          return isOne ? steps.map(() => error as Error) : await this.#oneByOne(steps);
        }
        await sleep(retryDelay.next(), this.#ended.signal);
        if (this.#ended.signal.aborted) return steps.map(() => error as Error);
      }
    }
  }

  /** The database refuses one result of the batch; the others must not fail with it. */
  async #oneByOne(steps: readonly StepWrite[]): Promise<(StepWritten | Error)[]> {
    const answers: (StepWritten | Error)[] = [];
    for (const step of steps) answers.push(...(await this.#send([step])));
    return answers;
  }
}
