import type { Db } from "../db/db.ts";
import { isTransient } from "../db/transient.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { minimalFailure } from "../model/failure.ts";
import type { Fence } from "../model/job.ts";
import type { SettledAttempt } from "../model/telemetry.ts";
import { Coalescer } from "../runtime/coalescer.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { finish, type Finish } from "../sql/finish.ts";
import { requeue, type Requeue } from "../sql/requeue.ts";
import { settledByOwner } from "../sql/settled.ts";
import { succeed } from "../sql/succeed.ts";
import { withoutDetail, type Verdict } from "./verdict.ts";

/** `lost`: the fence no longer matched, and nothing was written. `cancelled`: it was to be requeued, but had been cancelled. */
export type Settled = "settled" | "cancelled" | "lost";

/** An attempt with its verdict. */
export type Ended = SettledAttempt & { readonly verdict: Verdict };

/** Called with the attempts of one batch once they are recorded, and how long that took. */
export type OnSent = (ended: readonly Ended[], tookMs: number) => void;

const largestBatch = 1_000;
/** After a batch smaller than this, wait a moment so that the next one is larger. */
const smallBatch = 100;
/** How long. At 200 jobs a second two then share a statement, at 1,000 ten do; a job by itself is recorded at once. */
const collectMs = 10;
/** Characters of results in one statement; as parameters they are copied several times. */
const heaviestBatch = 8_388_608;

/**
 * Records how attempts ended. Outcomes that arrive while a round trip is in flight share the next one. While the database is
 * unavailable they wait here. However late they are written, the fence decides whether they still count.
 */
export class Settler {
  readonly #db: Db;
  readonly #logger: Logger;
  readonly #coalescer: Coalescer<Ended, Settled>;
  readonly #ended = new AbortController();

  constructor(db: Db, logger: Logger, onSent?: OnSent) {
    this.#db = db;
    this.#logger = logger;
    const send = (ended: readonly Ended[]): Promise<(Settled | Error)[]> =>
      this.#send(ended.map(({ verdict }) => verdict));
    this.#coalescer = new Coalescer({
      send: onSent === undefined ? send : (ended) => this.#timed(ended, send, onSent),
      maxBatch: largestBatch,
      weigh: ({ verdict }) => (verdict.ends ? (verdict.result?.length ?? 0) : 0),
      maxWeight: heaviestBatch,
      inFlight: 2,
      // The handlers of a claim that end at once end in one turn, a few at a time: otherwise the first few are a statement of their own.
      sends: "after turn",
      // No caller waits for it, and its slot is free already.
      rest: (_, size) => (size < smallBatch ? collectMs : 0),
      onCallbackError: (error) => logger.error({ err: error }, "an outcome was recorded, but not reported"),
    });
  }

  /** Record this attempt, and call one of the callbacks with the result. */
  settle<Item extends Ended>(
    ended: Item,
    onSettled: (settled: Settled, ended: Item) => void,
    onFailed: (error: unknown, ended: Item) => void,
  ): void {
    // The coalescer passes the item it was given to the callback.
    this.#coalescer.add(
      ended,
      onSettled as (settled: Settled, ended: Ended) => void,
      onFailed as (error: unknown, ended: Ended) => void,
    );
  }

  /** Release many in one statement, ahead of the outcomes that wait. */
  async releaseAll(verdicts: readonly Verdict[]): Promise<(Settled | Error)[]> {
    if (verdicts.length === 0) return [];
    return await this.#send(verdicts);
  }

  /** Wait for what is under way. */
  async idle(): Promise<void> {
    await this.#coalescer.idle();
  }

  /** Retry no more while the database is unavailable. The leases of unrecorded attempts run out, and other workers rescue them. */
  end(): void {
    this.#ended.abort();
  }

  async #timed(
    ended: readonly Ended[],
    send: (ended: readonly Ended[]) => Promise<(Settled | Error)[]>,
    onSent: OnSent,
  ): Promise<(Settled | Error)[]> {
    const sentAt = performance.now();
    const results = await send(ended);
    const onRecord = ended.filter((_, index) => isOnRecord(results[index]));
    try {
      if (onRecord.length > 0) onSent(onRecord, performance.now() - sentAt);
    } catch (error) {
      this.#logger.warn({ err: error }, "outcomes were recorded, but telemetry threw");
    }
    return results;
  }

  async #send(verdicts: readonly Verdict[], unsure = false): Promise<(Settled | Error)[]> {
    const retryDelay = new RetryDelay();
    let sent = verdicts;
    for (;;) {
      try {
        return await this.#write(sent, unsure);
      } catch (error) {
        // One statement of this write failed; another one may have succeeded before it.
        unsure = true;
        if (dbErrorCategory(error) === "data" && sent === verdicts) {
          if (verdicts.length > 1) return await this.#oneByOne(verdicts);
          // Recording a failure must never be refused, so send it without the text that the database refuses.
          sent = verdicts.map((verdict) => withoutDetail(verdict, minimalFailure()));
          continue;
        }
        // A retry would be refused again, and the others would wait behind it. Its lease runs out.
        if (dbErrorCategory(error) === "data") return verdicts.map(() => error as Error);
        if (!isTransient(error))
          this.#logger.error({ err: error }, "could not record outcomes; trying again");
        await sleep(retryDelay.next(), this.#ended.signal);
        if (this.#ended.signal.aborted) return verdicts.map(() => error as Error);
      }
    }
  }

  /** One outcome of the batch cannot be stored; the others must not wait for it. */
  async #oneByOne(verdicts: readonly Verdict[]): Promise<(Settled | Error)[]> {
    const results: (Settled | Error)[] = [];
    for (const verdict of verdicts) results.push(...(await this.#send([verdict], true)));
    return results;
  }

  async #write(verdicts: readonly Verdict[], unsure = false): Promise<Settled[]> {
    if (!unsure && verdicts.every(isPlain)) {
      const fences = verdicts.map((verdict) => verdict.fence);
      const settled = await succeed(this.#db, fences);
      return fences.map((fence) => (settled.has(fence) ? "settled" : "lost"));
    }
    const ending = verdicts.filter((verdict): verdict is { ends: true } & Finish => verdict.ends);
    const returning = verdicts.filter((verdict): verdict is { ends: false } & Requeue => !verdict.ends);
    const settled = ending.length === 0 ? new Set<Fence>() : await finish(this.#db, ending);
    const back = returning.length === 0 ? new Set<Fence>() : await requeue(this.#db, returning);

    const cancelled = await this.#cancelInstead(returning.filter((verdict) => !back.has(verdict.fence)));
    const missing = verdicts.filter(
      ({ fence }) => !settled.has(fence) && !back.has(fence) && !cancelled.has(fence),
    );
    // After a failed write, a missing row may mean that this worker has settled it.
    const own =
      unsure && missing.length > 0
        ? await settledByOwner(
            this.#db,
            missing.map((verdict) => verdict.fence),
          )
        : new Set<Fence>();
    return verdicts.map(({ fence }) => {
      if (cancelled.has(fence)) return "cancelled";
      return settled.has(fence) || back.has(fence) || own.has(fence) ? "settled" : "lost";
    });
  }

  /** A job that could not be requeued may have been cancelled while it ran. Then it ends as cancelled. */
  async #cancelInstead(verdicts: readonly Requeue[]): Promise<Set<Fence>> {
    if (verdicts.length === 0) return new Set();
    return await finish(
      this.#db,
      verdicts.map(({ fence, ending }) => ({
        fence,
        state: "cancelled",
        result: null,
        reason: "cancelled while it ran",
        ending,
      })),
    );
  }
}

function isOnRecord(result: Settled | Error | undefined): boolean {
  return result === "settled" || result === "cancelled";
}

/** A success without a result: only its fence has to be sent. */
function isPlain(verdict: Verdict): boolean {
  const { ends, state } = verdict;
  if (!ends || state !== "succeeded") return false;
  return verdict.result === null && verdict.ending === null && verdict.plan === undefined;
}
