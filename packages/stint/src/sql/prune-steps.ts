import type { Run } from "../db/db.ts";
import { number, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** The smallest id of a job that is made after `at`, a SQL expression. Ids begin with the milliseconds of their time. */
const idAt = (at: string): string =>
  `stint.by_index((lpad(to_hex(greatest(0, (extract(epoch from ${at}) * 1000)::bigint)), 12, '0') || repeat('0', 20))::uuid)`;

const orphans = (table: string, range: string): string => `
      select r.ctid
      from stint.${table} r
      where ${range}
        and (select true from stint.job j where j.id = stint.by_index(r.job_id) limit 1) is null
        and (select true from stint.history h where h.id = stint.by_index(r.job_id) limit 1) is null
      order by r.job_id
      limit $2`;

// No job leaves the history earlier than after `$1`, so younger jobs need no look. Ids that callers made themselves may lie after the present.
const gone = (table: string): string => `${table} as (
    delete from stint.${table}
    where ctid = any (array(
      (${orphans(table, `r.job_id < ${idAt("statement_timestamp() - $1::bigint * interval '1 millisecond'")}`)})
      union all
      (${orphans(table, `r.job_id > ${idAt("statement_timestamp() + interval '1 day'")}`)})
    ))
    returning 1
  )`;

const deleteSteps = statement(
  "prune-steps",
  `
  with ${["step", "progress", "signal"].map(gone).join(", ")}
  select greatest((select count(*) from step), (select count(*) from progress), (select count(*) from signal))::integer as gone`,
);

/**
 * Delete what handlers remembered, and signals that were never received, of jobs that have left the history. Returns how many rows went from the
 * table that had most of them.
 */
export async function pruneSteps(db: Run, keepMs: number, limit: number): Promise<number> {
  return await readOne(db, deleteSteps, [keepMs, limit], (row) => number(row, "gone"));
}
