import type { Run } from "../db/db.ts";
import { number, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { IdleCheckPart } from "./idle-check.ts";

const liftMissed = statement("lift-missed", `select stint.lift_missed() as left`);

/**
 * Lift jobs that waited for one that has ended, where the end met a transaction that was replacing the waiting job and has rolled back since.
 * Returns how many of these transactions are still open.
 */
export async function liftMissedLatest(db: Run): Promise<number> {
  return await readOne(db, liftMissed, [], (row) => number(row, "left"));
}

/** Whether there are such jobs. The table is empty nearly always. */
export const missedLatest: IdleCheckPart = {
  sql: `select 0 from stint.latest_missed limit 1`,
  endsSleep: true,
};
