import { ConnectionLost, type Db, type Run } from "../db/db.ts";
import { isUnavailable, isTransient, isSessionEnded } from "../db/transient.ts";
import { isTooLate } from "../db/server-clock.ts";
import { codeOf, connectAdvice, dbErrorCategory } from "../db/sqlstate.ts";
import { DatabaseUnavailableError, UnknownOutcomeError } from "../errors.ts";
import { Coalescer } from "../runtime/coalescer.ts";
import { maskUrl } from "../runtime/mask.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { enqueue, type EncodedRow, type EnqueuedRow, type SendTimes } from "../sql/enqueue.ts";
import { explainError, isRefusal } from "./explain-error.ts";
import { isFar, mostRefusals, untilPassed } from "./retry.ts";
import { heaviestBatch, inBatches, inStatements, largestBatch, largestStatement, weigh } from "./batches.ts";

const tries = 4;

export type EnqueuerOptions = {
  db: Db;
  /**
   * Connections for enqueues that may wait for another session's transaction. On the shared connections, two such waits would
   * stop the client and its workers.
   */
  lockWaitDb: Db;
  /** Called before every try: refuses a schema of an unsupported version. Undefined: this was checked before. */
  ready: () => Promise<void> | undefined;
  /** Whether an enqueue sent now includes the wake in its own commit. */
  wakes: () => boolean;
  /** `rodeMs`: how long the enqueue took, if its commit included the wake. */
  onEnqueued: (
    rows: readonly EncodedRow[],
    results: readonly EnqueuedRow[],
    rodeMs: number | undefined,
  ) => void;
};

/**
 * Enqueues outside a transaction. Calls that arrive while a round trip is in flight share the next one. So a single caller is
 * not delayed, and a thousand callers need few commits.
 */
export class Enqueuer {
  readonly #options: EnqueuerOptions;
  readonly #plain: Coalescer<EncodedRow, EnqueuedRow>;

  constructor(options: EnqueuerOptions) {
    this.#options = options;
    this.#plain = new Coalescer({
      send: (rows) => this.sendApart(rows),
      maxBatch: largestBatch,
      weigh,
      maxWeight: heaviestBatch,
      inFlight: 2,
    });
  }

  /** One job. Committed when this resolves. */
  one(row: EncodedRow): Promise<EnqueuedRow> {
    // A deduplicated job, or one that waits for others, may have to wait for another transaction. It is sent alone, so that no other call
    // waits with it.
    if (mayWait(row)) return this.send([row]).then(([result]) => result as EnqueuedRow);
    return this.#plain.submit(row);
  }

  /** Many jobs: all of them, or none. */
  async send(rows: readonly EncodedRow[]): Promise<EnqueuedRow[]> {
    const wakes = this.#options.wakes();
    const sentAt = performance.now();
    const results = await this.#persistently(rows, wakes);
    try {
      this.#options.onEnqueued(rows, results, wakes ? performance.now() - sentAt : undefined);
    } catch {
      // A wake is only a hint. The jobs are committed, so a failed wake must not look like a failed enqueue.
    }
    return results;
  }

  /** Many jobs; each may fail on its own. */
  async sendApart(rows: readonly EncodedRow[]): Promise<(EnqueuedRow | Error)[]> {
    try {
      return await this.send(rows);
    } catch (error) {
      if (rows.length === 1 || !mayBeOneRow(error)) return rows.map((row) => ownError(error, row));
      // One row cannot be stored and failed the whole statement. Bisection finds it in few statements.
      const middle = rows.length >> 1;
      const first = await this.sendApart(rows.slice(0, middle));
      return [...first, ...(await this.sendApart(rows.slice(middle)))];
    }
  }

  /**
   * Send until a result arrives. A repeat carries the same ids and a repeat flag, and the database then finds the job whether it is
   * live or finished. Earlier sends may still be in flight: the repeat waits for their deadline, after which each of them has
   * either written its jobs or can no longer write. So exactly one job results.
   */
  async #persistently(rows: readonly EncodedRow[], wakes: boolean): Promise<EnqueuedRow[]> {
    const { db, lockWaitDb, ready } = this.#options;
    const waits = rows.some(mayWait);
    const retryDelay = new RetryDelay();
    let toSend = rows;
    let unknown: ConnectionLost | undefined;
    /** The latest deadline of the sends without the repeat flag. */
    let after: number | undefined;
    let refusals = 0;
    for (let left = tries; ; left--) {
      let until: number | undefined;
      const times = (): SendTimes => {
        until = Math.max(until ?? 0, db.clock.deadline(refusals));
        return { until, after };
      };
      try {
        const checked = ready();
        if (checked !== undefined) await checked;
        if (after !== undefined) await untilPassed(db, after);
        return await enqueueAll(waits ? lockWaitDb : db, lockWaitDb, toSend, wakes, times);
      } catch (error) {
        if (isTooLate(error) && refusals < mostRefusals) {
          refusals += 1;
          left += 1;
          continue;
        }
        if (error instanceof ConnectionLost && until !== undefined) {
          unknown = error;
          if (!isSessionEnded(error) && toSend.some(({ row }) => row.again === undefined)) after = until;
          toSend = rows.map((row) => ({ ...row, row: { ...row.row, again: true } }));
        }
        if (!isTransient(error)) throw explainError(error, db.schema);
        const tooFar = after !== undefined && isFar(db, after) ? after : undefined;
        if (left > 1 && tooFar === undefined) {
          await sleep(retryDelay.next());
          continue;
        }
        if (unknown === undefined) throw isUnavailable(error) ? unavailable(rows, error) : error;
        if (after !== undefined) await untilPassed(db, after);
        throw unknownOutcome(rows, unknown, tooFar);
      }
    }
  }
}

function mayWait({ row }: EncodedRow): boolean {
  return row.dedupe_key !== undefined || row.member !== undefined;
}

async function enqueueAll(
  db: Db,
  lockWaitDb: Db,
  rows: readonly EncodedRow[],
  wakes: boolean,
  times: () => SendTimes,
): Promise<EnqueuedRow[]> {
  if (inBatches(rows, largestStatement).length === 1) return await enqueue(db, rows, wakes, times());
  return await lockWaitDb.transaction(async (tx) => await enqueueBatches(tx, rows, wakes, times));
}

async function enqueueBatches(
  tx: Run,
  rows: readonly EncodedRow[],
  notify: boolean,
  times: () => SendTimes,
): Promise<EnqueuedRow[]> {
  const { batches, inGivenOrder } = inStatements(rows);
  const results: EnqueuedRow[][] = [];
  for (const batch of batches) results.push(await enqueue(tx, batch, notify, times()));
  return inGivenOrder(results);
}

/**
 * Whether a single row may have caused the error. Missing rights or tables, a full disk or a cancelled statement would fail
 * every row.
 */
function mayBeOneRow(error: unknown): boolean {
  if (isRefusal(error) || dbErrorCategory(error) === "data") return true;
  const code = codeOf(error);
  return (
    dbErrorCategory(error) === "other" &&
    /^[0-9A-Z]{5}$/.test(code ?? "") &&
    !/^(?:42|53|57|58|XX)/.test(code ?? "")
  );
}

/** The error for one caller of a shared statement: it names only the job of that caller. */
function ownError(error: unknown, row: EncodedRow): Error {
  if (error instanceof UnknownOutcomeError)
    return unknownOutcome([row], error.cause, error.mayHappenUntil?.getTime());
  if (error instanceof DatabaseUnavailableError) return unavailable([row], error.cause);
  return error as Error;
}

function unknownOutcome(
  rows: readonly EncodedRow[],
  cause: unknown,
  mayHappenUntil: number | undefined,
): UnknownOutcomeError {
  return new UnknownOutcomeError(
    "enqueue",
    rows.map((row) => row.row.id),
    { cause, mayHappenUntil: mayHappenUntil === undefined ? undefined : new Date(mayHappenUntil) },
  );
}

function unavailable(rows: readonly EncodedRow[], cause: unknown): DatabaseUnavailableError {
  const [first] = rows;
  const jobs = `job ${first?.row.id}${rows.length > 1 ? ` and ${rows.length - 1} more` : ""}`;
  return new DatabaseUnavailableError(`${reason(cause)}, so ${jobs} was not sent and does not exist`, {
    cause,
    advice: connectAdvice(cause),
  });
}

/** The reason why connecting failed, extracted from its error. */
function reason(error: unknown): string {
  const cause: unknown = (error as { cause?: unknown } | null | undefined)?.cause ?? error;
  const text = cause instanceof Error && cause.message !== "" ? cause.message : codeOf(cause);
  return `no connection (${maskUrl(text ?? "no reason given")})`;
}
