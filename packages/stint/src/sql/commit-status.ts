import type { Run } from "../db/db.ts";
import { oneOf, readMany, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";

export type CommitStatus = "in progress" | "committed" | "aborted" | "unknown";

// `pg_xact_status` fails for an id that the server has not assigned. Ids from the end of the snapshot on have not ended.
const commitStatuses = statement(
  "commit-statuses",
  `
  select
    t.xid,
    case
      when t.xid::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) then 'in progress'
      else coalesce(pg_xact_status(t.xid::xid8), 'unknown')
    end as status
  from unnest($1::text[]) as t (xid)`,
);

const readStatus = oneOf(["in progress", "committed", "aborted", "unknown"]);

/** How transactions ended, by their ids. `unknown`: so long ago that the server has forgotten. */
export async function commitStatusesOf(db: Run, xids: readonly string[]): Promise<Map<string, CommitStatus>> {
  const rows = await readMany(db, commitStatuses, [xids], (row) => ({
    xid: text(row, "xid"),
    status: readStatus(row, "status"),
  }));
  return new Map(rows.map(({ xid, status }) => [xid, status]));
}
