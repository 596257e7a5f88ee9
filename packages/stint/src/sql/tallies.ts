import type { Run } from "../db/db.ts";
import { numberOrNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/**
 * Whoever changes how many jobs there are, or how many are scheduled, retrying, parked or dead, says so in the same statement,
 * in one row for each queue, kind and priority. Columns left out are zero. A claim of ready jobs says nothing.
 */
export const toTallies = (columns: string): string =>
  `insert into stint.tally_delta (queue, kind, priority, ${columns})`;

const foldTallies = statement("fold", `select stint.fold_tallies($1, $2, $3) as folded`);
const most = 200_000;
/** Where the tallies are of another server, a fold counts every job. */
const deadlineMs = 60_000;

/**
 * Move what has been said into the sums, unless that was done less than `restMs` ago, and sample the depth if it is wanted.
 * Answers how many rows were moved; null: left to another, who is at it or has just done it.
 */
export async function fold(db: Run, restMs: number, sample = true): Promise<number | null> {
  const values = [restMs, sample, most];
  return await readOne(db, foldTallies, values, (row) => numberOrNull(row, "folded"), { deadlineMs });
}

/** From how much on, unfolded, it takes a moment to add up. Workers fold long before. */
const many = 20_000;
const someOfThem = 50_000;

/**
 * Whether there is so much that nobody has folded, as it may be where jobs are enqueued and no worker runs, and whoever asks may do
 * something about it.
 */
export const isBehind = `(
    current_setting('transaction_read_only') = 'off'
    and has_function_privilege('stint.fold_tallies(integer, boolean, integer)', 'execute')
    and exists (
      select
      from stint.tally_delta d
      where d.xid >= stint.by_index((select pg_snapshot_xmax(snapshot) from stint.tally_fold order by fold desc limit 1))
      order by d.xid
      offset ${many}
      limit 1
    ))`;

/** Fold some of it, for the next who asks. A favour: where it cannot be done now, that is nobody's trouble. */
export async function foldInPassing(db: Run): Promise<void> {
  const failedAt = inVain.get(db);
  if (failedAt !== undefined && performance.now() - failedAt < favourRestMs) return;
  await db.run(foldTallies, [0, false, someOfThem]).catch(() => inVain.set(db, performance.now()));
}
// Once that one transaction has said more than can be folded within a time limit, each who asks would wait for it. Not for good:
// it may have been a fault that passed.
const inVain = new WeakMap<Run, number>();
const favourRestMs = 600_000;

const countAgain = statement("recount", `select stint.recount()`);

/** Count every job, where the tallies cannot be trusted: after rows were changed by hand. Reads all live jobs and all dead ones. */
export async function recount(db: Run): Promise<void> {
  await db.run(countAgain, [], { deadlineMs });
}
