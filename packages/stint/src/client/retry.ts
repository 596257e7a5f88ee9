import { ConnectionLost, type Db } from "../db/db.ts";
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

/** Change one job. Sent once: if the result is lost, the caller gets an UnknownOutcomeError and must look the job up. */
export async function sendOnce<T>(
  db: Db,
  action: string,
  jobId: string,
  work: (db: Db) => Promise<T>,
): Promise<T> {
  try {
    return await work(db);
  } catch (error) {
    if (error instanceof ConnectionLost) throw new UnknownOutcomeError(action, [jobId], { cause: error });
    throw explainError(error, db.schema);
  }
}
