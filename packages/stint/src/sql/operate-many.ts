import type { Row, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { audit, endCancelled, endedColumns, liveAgain, waitingColumns } from "./transitions.ts";
import { toTallies } from "./tallies.ts";

/** Some jobs of a bulk operation. The rules are those of `operate.ts`, and so is the audit: a row for each job. */
export type Batch = {
  readonly ids: readonly string[];
  /** Of the audit row of each, the same whenever it is sent: what was done and not answered is not done again. */
  readonly auditIds: readonly string[];
  /** Acted on only in these states: what was searched for, of those that allow it. */
  readonly states: readonly JobState[];
  /** Acted on only if they were in these states at this moment, by the database's clock, as far as their rows tell. */
  readonly until: string;
  readonly actor: string;
  readonly reason: string;
};

/**
 * A job that was acted on, and the queue in which it is ready or was asked to stop. If that was when this batch was sent before, as it
 * is now; null if it has ended since.
 */
export type Acted = { readonly id: string; readonly queue: string | null; readonly was: JobState | null };

/** So many less in the state they were in. */
const fewer = (state: JobState): string => `-count(*) filter (where state = '${state}')`;
const grouped = `group by queue, kind, priority`;

/** Those that were done when this was sent before and its answer was lost. Their audit rows are there. */
const before = `
  with asked_for as (
    select * from unnest($1::uuid[], $6::uuid[]) as a (id, audit_id)
  ), before as materialized (
    select a.id from asked_for a join stint.audit n on n.id = a.audit_id
  )`;
const andBefore = `
  union all
  select b.id, j.queue, j.state from before b left join stint.job j on j.id = b.id`;

/** A row for each job, in the statement that acts on it. */
const noted = (action: string, acted: string): string => `
    ${audit} select a.audit_id, $4::text, '${action}', $5::text, a.id from ${acted} join asked_for a using (id)
    -- Sent again while the first was still under way: the other's row is that of this deed.
    on conflict (id) do nothing`;

/**
 * Whether a live job was in one of the states at the moment `$3`. If every live state is meant, it was unless it was replayed since. Else it
 * must have come into its state before: by the end of its last attempt, and by its claim or the time from which it was ready. A job that
 * runs now and was ready then is in order where both states are meant.
 */
const wasSo = `
      and j.created_at <= $3::timestamptz
      and case
        when $2::stint.job_state[] @> '{scheduled,ready,running,retrying,parked}' then
          j.run = 1 or not exists (
            select from stint.audit a where a.job_id = j.id and a.action = 'replay' and a.at > $3::timestamptz
          )
        else
          coalesce((j.log -> -1 ->> 'endedAt')::timestamptz, j.created_at) <= $3::timestamptz
          and case j.state
            when 'ready' then j.run_at <= $3::timestamptz
            when 'running' then
              j.claimed_at <= $3::timestamptz
              or ('ready' = any ($2::stint.job_state[]) and j.run_at <= $3::timestamptz)
            else true
          end
      end`;

/**
 * Locked in one order and without waiting: a job that somebody claims, renews or settles at this moment is left for another
 * try, rather than holding up its worker or being held up by a transaction that stays open.
 */
const picked = `${before}, picked as materialized (
    select j.id, j.state
    from stint.job j
    where j.id = any ($1::uuid[]) and j.state = any ($2::stint.job_state[])${wasSo}
      and j.id not in (select id from before)
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
    ${noted("cancel", "acted")}
  )
  select id, queue, state from acted${andBefore}`,
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
    ${noted("run-now", "moved")}
  )
  select id, queue, state from moved${andBefore}`,
);

const replayMany = statement(
  "replay-many",
  `${before}, picked as materialized (
    select h.id
    from stint.history h
    where h.id = any ($1::uuid[]) and h.state = any ($2::stint.job_state[]) and h.finished_at <= $3::timestamptz
      and h.id not in (select id from before)
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
    ${noted("replay", "gone")}
  )
  select id, queue, state from gone${andBefore}`,
);

const statements = { cancel: cancelMany, "run-now": runManyNow, replay: replayMany };

/** Act on many jobs in one statement. Answers those it happened to; the others were locked or in another state. */
export async function actOnMany(
  db: Run,
  action: keyof typeof statements,
  { ids, auditIds, states, until, actor, reason }: Batch,
): Promise<Acted[]> {
  return (await db.run(statements[action], [ids, states, until, actor, reason, auditIds])).map(toActed);
}

function toActed(row: Row): Acted {
  return {
    id: row["id"] as string,
    queue: row["queue"] as string | null,
    was: row["state"] as JobState | null,
  };
}
