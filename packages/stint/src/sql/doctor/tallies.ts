import type { Run } from "../../db/db.ts";
import { columns, number, readMany, readOne, text } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

const selectSize = statement(
  "doctor-job-bytes",
  `select (pg_relation_size('stint.job') + pg_relation_size('stint.history_dead'))::float8 as bytes`,
);

/** The size of the tables that a count of live and dead jobs reads. */
export async function countableBytes(db: Run): Promise<number> {
  return await readOne(db, selectSize, [], (row) => number(row, "bytes"));
}

export type WrongTally = { queue: string; kind: string; priority: number; tallied: string; counted: string };

// One statement reads one snapshot, so concurrent changes are in both counts or in neither.
const selectWrong = statement(
  "doctor-tallies",
  `
  with both_sides as (
    select
      queue, kind, priority,
      format('%s scheduled, %s ready, %s running, %s retrying, %s parked, %s dead', coalesce(d.scheduled, 0), coalesce(d.ready, 0),
        coalesce(d.running, 0), coalesce(d.retrying, 0), coalesce(d.parked, 0), coalesce(d.dead, 0)) as tallied,
      format('%s scheduled, %s ready, %s running, %s retrying, %s parked, %s dead', coalesce(c.scheduled, 0), coalesce(c.ready, 0),
        coalesce(c.running, 0), coalesce(c.retrying, 0), coalesce(c.parked, 0), coalesce(c.dead, 0)) as counted
    from stint.depth d
    full join stint.counted c using (queue, kind, priority)
  )
  select queue, kind, priority, tallied, counted
  from both_sides
  where tallied <> counted
  order by queue, kind, priority
  limit 10`,
);

const toWrongTally = columns<WrongTally>({
  queue: text,
  kind: text,
  priority: number,
  tallied: text,
  counted: text,
});

/** Differences between the tallies and the tables. Counts every live and every dead job. */
export async function wrongTallies(db: Run): Promise<WrongTally[]> {
  return await readMany(db, selectWrong, [], toWrongTally);
}
