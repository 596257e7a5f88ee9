import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { audit, endCancelled, endedColumns, liveAgain, waitingColumns } from "./transitions.ts";
import { toTallies } from "./tallies.ts";

/** Who did it and why; written in the same statement as the deed. */
export type AuditInfo = { auditId: string; actor: string; reason: string | null };

/** One less in the state it was in. */
const unless = (state: JobState): string => `case when state = '${state}' then -1 else 0 end`;

const cancelJob = statement(
  "cancel",
  `
  with asked as (
    update stint.job j
    set cancel_requested = true
    where j.id = $1 and j.state = 'running'
    returning j.id
  ), gone as (
    delete from stint.job j
    where j.id = $1 and j.state <> 'running'
    returning ${waitingColumns("j.state")}
  ), ended as (
    ${endCancelled("$4")}
    returning id
  ), tallied as (
    ${toTallies("live, scheduled, retrying, parked")}
    select queue, kind, priority, -1, ${unless("scheduled")}, ${unless("retrying")}, ${unless("parked")} from gone
  ), noted as (
    ${audit} select $2::uuid, $3::text, 'cancel', $4::text, id from (select id from asked union all select id from ended) done
  )
  select 'running' as was from asked
  union all
  select 'waiting' as was from ended`,
);

/**
 * End a job that waits, or ask the worker that runs it to stop. After this no further attempt starts.
 * Answers which of the two it was; undefined if the job is neither.
 */
export async function cancel(db: Run, id: string, by: AuditInfo): Promise<"running" | "waiting" | undefined> {
  const [row] = await db.run(cancelJob, [id, by.auditId, by.actor, by.reason]);
  return row?.["was"] as "running" | "waiting" | undefined;
}

const runJobNow = statement(
  "run-now",
  `
  with waiting as materialized (
    select j.id, j.state
    from stint.job j
    where j.id = $1 and j.state in ('scheduled', 'retrying', 'parked')
    for update
  ), moved as (
    update stint.job j
    set state = 'ready', run_at = clock_timestamp(), reason = null
    from waiting
    where j.id = waiting.id
    returning j.id, j.queue, j.kind, j.priority, waiting.state
  ), tallied as (
    ${toTallies("scheduled, retrying, parked")}
    select queue, kind, priority, ${unless("scheduled")}, ${unless("retrying")}, ${unless("parked")} from moved
  ), noted as (
    ${audit} select $2::uuid, $3::text, 'run-now', $4::text, id from moved
  )
  select queue from moved`,
);

/** Make a waiting job ready at once. Answers its queue; undefined if it does not wait. */
export async function runNow(db: Run, id: string, by: AuditInfo): Promise<string | undefined> {
  const [row] = await db.run(runJobNow, [id, by.auditId, by.actor, by.reason]);
  return row?.["queue"] as string | undefined;
}

const replayJob = statement(
  "replay",
  `
  with gone as (
    delete from stint.history h
    where h.id = $1 and h.state in ('dead', 'cancelled')
    returning ${endedColumns}
  ), back as (
    ${liveAgain}
    returning id, queue
  ), tallied as (
    ${toTallies("live, dead")} select queue, kind, priority, 1, ${unless("dead")} from gone
  ), noted as (
    ${audit} select $2::uuid, $3::text, 'replay', $4::text, id from back
  )
  select queue from back`,
);

/** Send a dead or cancelled job round again, with fresh attempts. Answers its queue; undefined if it is neither. */
export async function replay(db: Run, id: string, by: AuditInfo): Promise<string | undefined> {
  const [row] = await db.run(replayJob, [id, by.auditId, by.actor, by.reason]);
  return row?.["queue"] as string | undefined;
}

const findState = statement("state", `select state from stint.jobs where id = $1`);

export async function stateOf(db: Run, id: string): Promise<JobState | undefined> {
  const [row] = await db.run(findState, [id]);
  return row?.["state"] as JobState | undefined;
}
