import { ConnectionLost, type Db } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { DatabaseUnavailableError, UnknownOutcomeError } from "../errors.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { explainError } from "./explain-error.ts";

const tries = 3;
/**
 * How often a statement may lose a race inside the server. Jobs that wait for one another are locked by settles and by actions; where the two
 * meet in opposite order, Postgres fails one of them with a deadlock, and nothing of it was written.
 */
const mostLostRaces = 10;
/** A deadlock has taken a second already, and the session that won it is about to end. */
const shortDelays = { baseMs: 20, capMs: 500 };

/**
 * Run a read or an idempotent write. It is sent again when the connection breaks before the result arrives, and after a deadlock or a lock
 * timeout.
 */
export async function withRetry<T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> {
  const retryDelay = new RetryDelay();
  const raceDelay = new RetryDelay(Math.random, shortDelays);
  for (let left = tries, races = 0; ; left--) {
    try {
      return await work(db);
    } catch (error) {
      if (isLostRace(error) && races < mostLostRaces) {
        left += 1;
        races += 1;
        await sleep(raceDelay.next());
        continue;
      }
      if (!(error instanceof ConnectionLost)) throw explainError(error, db.schema);
      if (left === 1) throw new DatabaseUnavailableError(error.message, { cause: error });
      await sleep(retryDelay.next());
    }
  }
}

function isLostRace(error: unknown): boolean {
  return dbErrorCategory(error) === "contention";
}

/** How often a statement may come too late: its time grows, and the clock is known better each time. */
export const mostRefusals = 6;
/** How long to wait for the deadline of an earlier send. */
const longestWaitMs = 20_000;

/**
 * Change one job. Repeated only if it changed nothing: it arrived too late, or lost a race inside the server. If the result is lost, the caller gets an
 * UnknownOutcomeError after the deadline, when the change can no longer happen, and must look the job up.
 */
export async function sendOnce<T>(
  db: Db,
  action: string,
  jobId: string,
  work: (until: number) => Promise<T>,
): Promise<T> {
  const raceDelay = new RetryDelay(Math.random, shortDelays);
  for (let refusals = 0, races = 0; ;) {
    const until = db.clock.deadline(refusals);
    try {
      return await work(until);
    } catch (error) {
      if (isTooLate(error) && refusals < mostRefusals) {
        refusals += 1;
        continue;
      }
      if (isLostRace(error) && races < mostLostRaces) {
        races += 1;
        await sleep(raceDelay.next());
        continue;
      }
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
