import type { Run } from "../db/db.ts";
import { numberOrNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/**
 * A statement that changes how many jobs are live, scheduled, retrying, parked or dead inserts the change, one row for each queue, kind and
 * priority. Omitted columns are zero. A claim of ready jobs inserts nothing.
 */
export const toTallies = (columns: string): string =>
  `insert into stint.tally_delta (queue, kind, priority, ${columns})`;

const foldTallies = statement("fold", `select stint.fold_tallies($1, $2, $3) as folded`);
const most = 200_000;
/** A fold counts every job if the tallies came from another server. */
const deadlineMs = 60_000;

/**
 * Fold the deltas into the sums, unless the last fold was less than `restMs` ago, and sample the depth if `sample` is set. Returns how many
 * deltas were folded; null: another session is folding or has just folded.
 */
export async function fold(db: Run, restMs: number, sample = true): Promise<number | null> {
  const values = [restMs, sample, most];
  return await readOne(db, foldTallies, values, (row) => numberOrNull(row, "folded"), { deadlineMs });
}

/** Whether there are deltas to fold, or a new hour began and every depth is yet to be sampled. Not worth waking a sleeping worker. */
export const unfolded: IdleCheckPart = {
  sql: `
      select case
        when f.framed_at < stint.step_of(clock_timestamp(), 3600) or exists (
          select
          from stint.tally_delta d
          where d.xid >= stint.by_index(pg_snapshot_xmax(f.snapshot))
          order by d.xid
          limit 1
        ) then 0
      end
      from (select snapshot, framed_at from stint.tally_fold order by fold desc limit 1) f
    `,
  endsSleep: false,
};

/** With more unfolded deltas, reading the depth becomes slow. Workers fold long before that. */
const many = 20_000;
const someOfThem = 50_000;

/**
 * Whether many deltas are unfolded, because jobs are enqueued while no worker runs, and the caller's role may fold them. Without such folds
 * a million deltas make each read of the depth take seconds, during the outage in which people look (decision 0015).
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

/** Fold some deltas for later readers of the depth. Best effort; failures are ignored. */
export async function foldBacklog(db: Run): Promise<void> {
  const failedAt = failures.get(db);
  if (failedAt !== undefined && performance.now() - failedAt < retryAfterMs) return;
  await db.run(foldTallies, [0, false, someOfThem]).catch(() => failures.set(db, performance.now()));
}
// One transaction may hold more deltas than a fold can move within its time limit, and every reader would wait for that. Retried later,
// because the failure may also be transient.
const failures = new WeakMap<Run, number>();
const retryAfterMs = 600_000;

const countAgain = statement("recount", `select stint.recount()`);

/** Count all jobs again, after rows were changed by hand. Reads every live and every dead job. */
export async function recount(db: Run): Promise<void> {
  await db.run(countAgain, [], { deadlineMs });
}
