import type { Row, Run } from "../db/db.ts";
import { number, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { rollUpSeries } from "./series.ts";
import { toTallies } from "./tallies.ts";

const makePartitions = statement(
  "make-partitions",
  `select stint.make_partitions($1) as made, stint.make_room()`,
);

/** Create the partitions of the coming days, and extend the space of live jobs. Returns the number of new days. */
export async function makePartitionsAhead(db: Run, days: number): Promise<number> {
  return await readOne(db, makePartitions, [days], (row) => number(row, "made"));
}

const dropPartitions = statement(
  "drop-partitions",
  `select stint.drop_partitions(statement_timestamp() - $1::bigint * interval '1 millisecond') as dropped`,
);

/** Drop whole days of finished jobs. Returns the number of dropped days. */
export async function dropOldDays(db: Run, keepMs: number): Promise<number> {
  return await readOne(db, dropPartitions, [keepMs], (row) => number(row, "dropped"));
}

const deleteDead = statement(
  "prune-dead",
  `
  with gone as (
    delete from stint.history
    where state = 'dead'
      and id in (
        select id from stint.history
        where state = 'dead' and finished_at < statement_timestamp() - $1::bigint * interval '1 millisecond'
          and not stint.is_waited_for(id)
        order by finished_at
        limit $2
      )
    returning queue, kind, priority
  ), tallied as (
    ${toTallies("dead")} select queue, kind, priority, -count(*) from gone group by queue, kind, priority
  )
  select count(*)::integer as gone from gone`,
);

/** Deletes a batch of rows. `which`: the condition of the rows, and their limit. */
const deleteBatch = (table: string, which: string): string => `
    delete from stint.${table}
    where ctid = any (array(select ctid from stint.${table} where ${which}))
    returning 1`;

const longAgo = `statement_timestamp() - $1::bigint * interval '1 millisecond'`;

// A schedule never goes back to an earlier slot: no deleted slot can fire again.
const deleteRest = statement(
  "prune-rest",
  `
  with gone as (${deleteBatch("history_done_rest", `finished_at < ${longAgo} limit $2`)}
  ), slots as (${deleteBatch("schedule_slot", `at < stint.by_index(${longAgo}) order by at limit $2`)}
  ), stops as (${deleteBatch("worker_stop", `stopped_at < stint.by_index(${longAgo}) order by stopped_at limit $2`)}
  )
  select greatest((select count(*) from gone), (select count(*) from slots))::integer as gone`,
);

// Skips rows that an enqueue is taking over at this moment: waiting for them could deadlock, and the victim could be the
// transaction of the enqueue.
const deleteWindows = statement(
  "prune-windows",
  `
  with gone as (${deleteBatch(
    "dedupe_window",
    "expires_at < statement_timestamp() - interval '1 minute' order by expires_at limit $1 for update skip locked",
  )}
  )
  select count(*)::integer as gone from gone`,
);

const deleteFlows = statement("prune-flows", `select stint.prune_flows($1, $2) as gone`);

// Also the next runs of dead jobs: these jobs are pruned by now and cannot be replayed.
const deleteAudit = statement(
  "prune-audit",
  `
  with gone as (${deleteBatch("audit", `at < ${longAgo} limit $2`)}
  ), planned as (${deleteBatch("next_run", `made_at < stint.by_index(${longAgo}) order by made_at limit $2`)}
  )
  select count(*)::integer as gone from gone`,
);

const deleteSeries = statement(
  "prune-series",
  `
  with gone as (
    delete from stint.series
    where ctid = any (array(
      select old.ctid
      from (
        values (10, interval '6 hours'), (60, interval '2 days'), (600, interval '8 days'), (3600, interval '90 days')
      ) as kept (step, age)
      cross join lateral (
        select s.ctid
        from stint.series s
        where s.step = kept.step and s.at < stint.by_index(statement_timestamp() - kept.age)
        limit $1
      ) old
      limit $1
    ))
    returning 1
  ), tenants as (${deleteBatch("tenant_usage", "at < statement_timestamp() - interval '1 day' limit $1")}
  )
  select count(*)::integer as gone from gone`,
);

/** Delete series past their retention. Returns the number of deleted points. */
export async function pruneSeries(db: Run, limit: number): Promise<number> {
  // Rolls up first: after days without a worker, steps may reach their retention before they were rolled up.
  await rollUpSeries(db);
  return await readOne(db, deleteSeries, [limit], gone);
}

/** Delete dead jobs past their retention, oldest first. Returns their number. */
export async function pruneDead(db: Run, keepMs: number, limit: number): Promise<number> {
  return await readOne(db, deleteDead, [keepMs, limit], gone);
}

/**
 * Delete history rows outside the daily partitions, expired dedupe windows, old audit rows and flows whose jobs have left the history, a
 * batch of each. Returns the size of the largest batch.
 */
export async function pruneSmall(
  db: Run,
  keep: { doneMs: number; auditMs: number },
  limit: number,
): Promise<number> {
  const rest = await readOne(db, deleteRest, [keep.doneMs, limit], gone);
  const windows = await readOne(db, deleteWindows, [limit], gone);
  const audit = await readOne(db, deleteAudit, [keep.auditMs, limit], gone);
  const flows = await readOne(db, deleteFlows, [keep.doneMs, Math.min(limit, 100)], gone);
  return Math.max(rest, windows, audit, flows);
}

function gone(row: Row): number {
  return number(row, "gone");
}
