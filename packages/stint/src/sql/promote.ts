import type { Run } from "../db/db.ts";
import { number, numberOrNull, readOne, text, texts } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { IdleCheckPart } from "./idle-check.ts";
import { unparked } from "./park.ts";
import { tallied } from "./transitions.ts";

export type Promotion = {
  /** How many became ready, and in which queues. */
  promoted: number;
  queues: string[];
  /** Time to the next one, by the database's clock; null when none waits. */
  nextDueMs: number | null;
  /** When this was, by the database's clock: what was due by then, and seen, is ready now. */
  at: string;
};

/** The rows of the index `job_due`: jobs that become ready at their `run_at`. A job that is parked until a time is one of them. */
const waitsForTime = (row: string): string =>
  `(${row}.state in ('scheduled', 'retrying') or ${row}.park_until is not null)`;

const promoteDue = statement(
  "promote",
  `
  with due as materialized (
    select d.ctid, d.id, d.state
    from stint.job d
    where ${waitsForTime("d")}
      and d.run_at > $2::timestamptz - interval '5 seconds'
      and d.run_at <= stint.by_index(statement_timestamp())
    order by d.run_at
    limit $1
    for update skip locked
  ), moved as (
    update stint.job j
    set state = 'ready', ${unparked}
    where j.ctid = any (array(select ctid from due))
      -- As text, or the planner may walk the whole index instead of fetching rows by their place.
      and (j.state::text in ('scheduled', 'retrying') or j.park_until is not null)
    returning j.id, j.queue, j.kind, j.priority
  ), tallied as (
    -- An update returns only the new state; due has the old one.
    ${tallied("(select moved.*, due.state as was from moved join due using (id)) promoted", {
      was: ["scheduled", "retrying", "parked"],
      becomes: ["ready"],
    })}
  )
  select
    (select count(*) from moved)::integer as promoted,
    array(select distinct queue::text from moved) as queues,
    (
      select extract(epoch from d.run_at - clock_timestamp()) * 1000
      from stint.job d
      where ${waitsForTime("d")}
        and d.run_at > stint.by_index(statement_timestamp())
      order by d.run_at
      limit 1
    )::float8 as next_due_ms,
    statement_timestamp()::text as at`,
);

/** When the next job is due. */
export const nextDue: IdleCheckPart = {
  sql: `
      select extract(epoch from d.run_at - clock_timestamp()) * 1000
      from stint.job d
      where ${waitsForTime("d")}
        and d.run_at > $3::timestamptz - interval '5 seconds'
      order by d.run_at
      limit 1
    `,
  endsSleep: true,
};

/**
 * Make due jobs ready, a batch at a time, and learn when to look again. `since` leaves out what was due some seconds before
 * that: entries of jobs promoted long ago pile up there while some other session's transaction stays open.
 */
export async function promote(db: Run, limit: number, since = "-infinity"): Promise<Promotion> {
  return await readOne(db, promoteDue, [limit, since], (row) => ({
    promoted: number(row, "promoted"),
    queues: texts(row, "queues"),
    nextDueMs: numberOrNull(row, "next_due_ms"),
    at: text(row, "at"),
  }));
}
