import type { Row, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { audit, endCancelled, endedColumns, liveAgain, waitingColumns } from "./deeds.ts";
import { toTallies } from "./tallies.ts";

/** Some jobs of a bulk operation. The rules are those of `operate.ts`, and so is the audit: a row for each job. */
export type Batch = {
  readonly ids: readonly string[];
  /** Acted on only in these states: what was searched for, of those that allow it. */
  readonly states: readonly JobState[];
  /** Enqueued, or for a replay ended, no later than this, by the database's clock. */
  readonly until: string;
  readonly actor: string;
  readonly reason: string;
};

/** A job that was acted on, and the queue in which it is ready or was asked to stop. */
export type Acted = { readonly id: string; readonly queue: string; readonly was: JobState };

/** So many less in the state they were in. */
const fewer = (state: JobState): string => `-count(*) filter (where state = '${state}')`;
const grouped = `group by queue, kind, priority`;

/**
 * Locked in one order and without waiting: a job that somebody claims, renews or settles at this moment is left for another
 * try, rather than holding up its worker or being held up by a transaction that stays open.
 */
const picked = `
  with picked as materialized (
    select j.id, j.state
    from stint.job j
    where j.id = any ($1::uuid[]) and j.state = any ($2::stint.job_state[]) and j.created_at <= $3::timestamptz
    order by j.id
    for update skip locked
  )`;

const cancelMany = statement(
  "cancel-many",
  `${picked}, asked as (
    update stint.job j
    set cancel_requested = true
    from picked p
    where j.id = p.id and j.state = 'running' and p.state = 'running'
    returning j.id, j.queue, p.state
  ), gone as (
    delete from stint.job j
    using picked p
    where j.id = p.id and j.state <> 'running' and p.state <> 'running'
    returning ${waitingColumns("p.state")}
  ), ended as (
    ${endCancelled("$5")}
  ), tallied as (
    ${toTallies("live, scheduled, retrying, parked")}
    select queue, kind, priority, -count(*), ${fewer("scheduled")}, ${fewer("retrying")}, ${fewer("parked")} from gone ${grouped}
  ), acted as (
    select id, queue, state from asked
    union all
    select id, queue, state from gone
  ), noted as (
    ${audit} select stint.new_id(), $4::text, 'cancel', $5::text, id from acted
  )
  select id, queue, state from acted`,
);

const runManyNow = statement(
  "run-many-now",
  `${picked}, moved as (
    update stint.job j
    set state = 'ready', run_at = clock_timestamp(), reason = null
    from picked p
    where j.id = p.id and j.state in ('scheduled', 'retrying', 'parked')
    returning j.id, j.kind, j.queue, j.priority, p.state
  ), tallied as (
    ${toTallies("scheduled, retrying, parked")}
    select queue, kind, priority, ${fewer("scheduled")}, ${fewer("retrying")}, ${fewer("parked")} from moved ${grouped}
  ), noted as (
    ${audit} select stint.new_id(), $4::text, 'run-now', $5::text, id from moved
  )
  select id, queue, state from moved`,
);

const replayMany = statement(
  "replay-many",
  `
  with picked as materialized (
    select h.id
    from stint.history h
    where h.id = any ($1::uuid[]) and h.state = any ($2::stint.job_state[]) and h.finished_at <= $3::timestamptz
    order by h.id
    for update skip locked
  ), gone as (
    delete from stint.history h
    using picked p
    where h.id = p.id and h.state in ('dead', 'cancelled')
    returning ${endedColumns}
  ), back as (
    ${liveAgain}
  ), tallied as (
    ${toTallies("live, dead")} select queue, kind, priority, count(*), ${fewer("dead")} from gone ${grouped}
  ), noted as (
    ${audit} select stint.new_id(), $4::text, 'replay', $5::text, id from gone
  )
  select id, queue, state from gone`,
);

const statements = { cancel: cancelMany, "run-now": runManyNow, replay: replayMany };

/** Act on many jobs in one statement. Answers those it happened to; the others were locked or in another state. */
export async function actOnMany(
  db: Run,
  action: keyof typeof statements,
  { ids, states, until, actor, reason }: Batch,
): Promise<Acted[]> {
  return (await db.run(statements[action], [ids, states, until, actor, reason])).map(toActed);
}

function toActed(row: Row): Acted {
  return { id: row["id"] as string, queue: row["queue"] as string, was: row["state"] as JobState };
}
