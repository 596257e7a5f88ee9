import { ConnectionLost, type Db, type Run, type Tx } from "../db/db.ts";
import { LeaseLostError } from "../errors.ts";
import type { Fence } from "../model/job.ts";
import { Recovery } from "../runtime/recovery.ts";
import { sleep } from "../runtime/sleep.ts";
import { finish, settledByOwner } from "../sql/settle.ts";

/**
 * Run `work` and record the job's success in one transaction. The success is written last, under the fence: if the
 * lease is gone, everything `work` wrote goes with it.
 *
 * @throws {LeaseLostError} The fence no longer held; nothing was written.
 */
export async function completeInTransaction(
  db: Db,
  fence: Fence,
  work: (tx: Tx) => Promise<string | null>,
): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      const result = await work(tx);
      await finishIn(tx, fence, result);
    });
  } catch (error) {
    // The commit may have happened although its answer never came. Repeating the work would repeat its writes.
    if (error instanceof ConnectionLost && (await committed(db, fence))) return;
    throw error;
  }
}

async function finishIn(tx: Run, fence: Fence, result: string | null): Promise<void> {
  const done = await finish(tx, [{ fence, state: "succeeded", result, reason: null, ending: null }]);
  if (!done.has(fence)) throw new LeaseLostError(fence.job, fence.epoch);
}

async function committed(db: Db, fence: Fence): Promise<boolean> {
  const recovery = new Recovery();
  for (let tries = 0; tries < 10; tries++) {
    try {
      return (await settledByOwner(db, [fence])).has(fence);
    } catch {
      await sleep(recovery.next());
    }
  }
  return false;
}
