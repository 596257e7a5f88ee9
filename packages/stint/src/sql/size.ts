import type { Run } from "../db/db.ts";
import { number, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";

const selectSize = statement(
  "size",
  `
  select (
    case when $1::boolean then (select coalesce(sum(d.live), 0) from stint.depth d) else 0 end
    + case when $2::boolean then (
        select coalesce(sum(greatest(c.reltuples, 0)), 0)
        from pg_catalog.pg_partition_tree('stint.history_done'::regclass) t
        join pg_catalog.pg_class c on c.oid = t.relid
        where t.isleaf
      ) else 0 end
    + case when $3::boolean then (select coalesce(sum(d.dead), 0) from stint.depth d) else 0 end
  )::float8 as jobs`,
);

/** About how many jobs there are: the live and the dead by the tallies, those that are done by the planner's statistics. */
export async function size(
  db: Run,
  wanted: { live: boolean; done: boolean; dead: boolean },
): Promise<number> {
  const values = [wanted.live, wanted.done, wanted.dead];
  return await readOne(db, selectSize, values, (row) => number(row, "jobs"));
}
