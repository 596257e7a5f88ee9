import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

/**
 * Whoever changes how many jobs there are, or how many are scheduled, retrying, parked or dead, says so in the same statement,
 * in one row for each queue, kind and priority. Columns left out are zero. A claim of ready jobs says nothing.
 */
export const toTallies = (columns: string): string =>
  `insert into stint.tally_delta (queue, kind, priority, ${columns})`;

const foldTallies = statement("fold", `select stint.fold_tallies($1, $2) as folded`);

/**
 * Move what has been said into the sums, unless that was done less than `restMs` ago, and sample the depth if it is wanted.
 * Answers how many rows were moved.
 */
export async function fold(db: Run, restMs: number, sample = true): Promise<number> {
  const [row] = await db.run(foldTallies, [restMs, sample]);
  return (row?.["folded"] as number | undefined) ?? 0;
}

const countAgain = statement("recount", `select stint.recount()`);

/** Count every job, where the tallies cannot be trusted: after rows were changed by hand. Reads all live jobs and all dead ones. */
export async function recount(db: Run): Promise<void> {
  await db.run(countAgain, []);
}
