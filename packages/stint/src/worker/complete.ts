import { ConnectionLost, type Db, type OnFault, type Tx } from "../db/db.ts";
import { InvalidOptionError, LeaseLostError } from "../errors.ts";
import type { Fence } from "../model/job.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { finishInLent } from "../sql/finish.ts";
import { settledByOwner } from "../sql/settled.ts";

/**
 * Run `work` and record the job's success in one transaction. The success is written last, under the fence: if the
 * lease is gone, everything `work` wrote goes with it.
 *
 * @throws {LeaseLostError} The fence no longer held; nothing was written.
 * @throws {InvalidOptionError} `work` ended the transaction itself.
 */
export async function completeInTransaction(
  db: Db,
  fence: Fence,
  work: (tx: Tx) => Promise<string | null>,
  onFault: OnFault,
): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      const result = await work(tx);
      const finished = await finishInLent(tx, fence, result);
      if (finished === "lost") throw new LeaseLostError(fence.job, fence.epoch);
      if (finished === "another transaction") throw endedByHandler(fence);
    }, onFault);
  } catch (error) {
    // The commit may have happened although its answer never came. Repeating the work would repeat its writes.
    if (error instanceof ConnectionLost && (await committed(db, fence))) return;
    throw error;
  }
}

function endedByHandler({ job }: Fence): InvalidOptionError {
  return new InvalidOptionError(
    "tx",
    `its transaction was ended by a COMMIT or ROLLBACK of the handler, so the success of job ${job} was not recorded. ` +
      "Leave BEGIN, COMMIT and ROLLBACK to Stint; use savepoints",
  );
}

async function committed(db: Db, fence: Fence): Promise<boolean> {
  const retryDelay = new RetryDelay();
  for (let tries = 0; tries < 10; tries++) {
    try {
      return (await settledByOwner(db, [fence])).has(fence);
    } catch {
      await sleep(retryDelay.next());
    }
  }
  return false;
}
