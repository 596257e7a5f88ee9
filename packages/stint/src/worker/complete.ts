import { ConnectionLost, type Db, type OnFault, type Tx } from "../db/db.ts";
import { InvalidOptionError, LeaseLostError } from "../errors.ts";
import type { Fence } from "../model/job.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { endTransaction, type LostTransaction } from "../sql/end-transaction.ts";
import { finishInLent } from "../sql/finish.ts";
import { settledByOwner } from "../sql/settled.ts";

/** JSON texts: the result of a job, and what its handler asked for with its success. */
export type Success = { readonly result: string | null; readonly plan: string | undefined };

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
  work: (tx: Tx) => Promise<Success>,
  onFault: OnFault,
): Promise<void> {
  let begun: LostTransaction | undefined;
  let isFault = false;
  try {
    await db.transaction(
      async (tx) => {
        begun = tx;
        const { result, plan } = await work(tx);
        const finished = await finishInLent(tx, fence, result, plan);
        if (finished === "lost") throw new LeaseLostError(fence.job, fence.epoch);
        if (finished === "another transaction") throw endedByHandler(fence);
      },
      (...fault) => {
        isFault = true;
        onFault(...fault);
      },
      fence.job,
    );
  } catch (error) {
    if (begun === undefined || !isFault) throw error;
    // Only a COMMIT whose response was lost may have happened. Repeating the work would then repeat its writes.
    const tries = error instanceof ConnectionLost ? 10 : 1;
    if (!(await committed(db, fence, begun, tries))) throw error;
  }
}

function endedByHandler({ job }: Fence): InvalidOptionError {
  return new InvalidOptionError(
    "tx",
    `its transaction was ended by a COMMIT or ROLLBACK of the handler, so the success of job ${job} was not recorded. ` +
      "Leave BEGIN, COMMIT and ROLLBACK to Stint; use savepoints",
  );
}

/** Whether a lost transaction has recorded the success. It is ended first, so that it cannot commit after the look. */
async function committed(db: Db, fence: Fence, lost: LostTransaction, tries: number): Promise<boolean> {
  const retryDelay = new RetryDelay();
  for (let left = tries; left > 0; left--) {
    try {
      const over = await endTransaction(db, lost);
      if ((await settledByOwner(db, [fence])).has(fence)) return true;
      if (over) return false;
    } catch {
      // The database is away.
    }
    if (left > 1) await sleep(retryDelay.next());
  }
  return false;
}
