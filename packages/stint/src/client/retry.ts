import { ConnectionLost, type Db } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import { DatabaseUnavailableError, UnknownOutcomeError } from "../errors.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { explainError } from "./explain-error.ts";

const tries = 3;

/** Run a read or an idempotent write. It is sent again when the connection breaks before the result arrives. */
export async function withRetry<T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> {
  const retryDelay = new RetryDelay();
  for (let left = tries; ; left--) {
    try {
      return await work(db);
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw explainError(error, db.schema);
      if (left === 1) throw new DatabaseUnavailableError(error.message, { cause: error });
      await sleep(retryDelay.next());
    }
  }
}

/** How often a statement may come too late: its time grows, and the clock is known better each time. */
export const mostRefusals = 6;
/** How long to wait for the deadline of an earlier send. */
const longestWaitMs = 20_000;

/**
 * Change one job. Repeated only if it arrived too late and changed nothing. If the result is lost, the caller gets an
 * UnknownOutcomeError after the deadline, when the change can no longer happen, and must look the job up.
 */
export async function sendOnce<T>(
  db: Db,
  action: string,
  jobId: string,
  work: (until: number) => Promise<T>,
): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    const until = db.clock.deadline(refusals);
    try {
      return await work(until);
    } catch (error) {
      if (isTooLate(error) && refusals < mostRefusals) continue;
      if (!(error instanceof ConnectionLost)) throw explainError(error, db.schema);
      const mayHappenUntil = (await untilPassed(db, until)) ? undefined : new Date(until);
      throw new UnknownOutcomeError(action, [jobId], { cause: error, mayHappenUntil });
    }
  }
}

/** Waits until a deadline has passed by the database's clock, as far as is known. False: that is too far away to wait for. */
export async function untilPassed(db: Db, deadline: number): Promise<boolean> {
  if (isFar(db, deadline)) return false;
  const waitMs = deadline - db.clock.nowMs() + 1;
  if (waitMs > 0) await sleep(waitMs);
  return true;
}

/** Whether a deadline is too far away to wait for: the clock of the server was set back. */
export function isFar(db: Db, deadline: number): boolean {
  return deadline - db.clock.nowMs() > longestWaitMs;
}
