import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { audited, tallied, toHistory, toLive, type AuditInfo } from "./transitions.ts";

// What a person does to one job. `operate-many.ts` does the same to many.

const by = { id: "$2", actor: "$3", reason: "$4", job: "id" };

const cancelJob = statement(
  "cancel",
  `
  with asked as (
    update stint.job j
    set cancel_requested = true
    where j.id = $1 and j.state = 'running'
    returning j.id
  ), ${toHistory(
    { where: "j.id = $1 and j.state <> 'running'" },
    { state: "'cancelled'::stint.job_state", reason: "$4::text" },
    "id",
  )}, tallied as (
    ${tallied("gone", { was: ["scheduled", "ready", "retrying", "parked"], becomes: ["cancelled"] })}
  ), noted as (
    ${audited("cancel", { ...by, rows: "(select id from asked union all select id from ended) acted" })}
  )
  select 'running' as was from asked
  union all
  select 'waiting' as was from ended`,
);

/**
 * End a job that waits, or ask the worker that runs it to stop. After this no further attempt starts.
 * Returns which of the two happened; undefined if the job is neither waiting nor running.
 */
export async function cancel(
  db: Run,
  id: string,
  audit: AuditInfo,
): Promise<"running" | "waiting" | undefined> {
  const [row] = await db.run(cancelJob, [id, audit.auditId, audit.actor, audit.reason]);
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
    returning j.id, j.queue, j.kind, j.priority, waiting.state as was
  ), tallied as (
    ${tallied("moved", { was: ["scheduled", "retrying", "parked"], becomes: ["ready"] })}
  ), noted as (
    ${audited("run-now", { ...by, rows: "moved" })}
  )
  select queue from moved`,
);

/** Make a waiting job ready at once. Returns its queue; undefined if the job does not wait. */
export async function runNow(db: Run, id: string, audit: AuditInfo): Promise<string | undefined> {
  const [row] = await db.run(runJobNow, [id, audit.auditId, audit.actor, audit.reason]);
  return row?.["queue"] as string | undefined;
}

const replayJob = statement(
  "replay",
  `
  with ${toLive({ where: "h.id = $1 and h.state in ('dead', 'cancelled')" }, "id, queue")}, tallied as (
    ${tallied("gone", { was: ["dead", "cancelled"], becomes: ["ready"] })}
  ), noted as (
    ${audited("replay", { ...by, rows: "back" })}
  )
  select queue from back`,
);

/** Requeue a dead or cancelled job with fresh attempts. Returns its queue; undefined if the job is neither. */
export async function replay(db: Run, id: string, audit: AuditInfo): Promise<string | undefined> {
  const [row] = await db.run(replayJob, [id, audit.auditId, audit.actor, audit.reason]);
  return row?.["queue"] as string | undefined;
}

const findState = statement("state", `select state from stint.jobs where id = $1`);

export async function stateOf(db: Run, id: string): Promise<JobState | undefined> {
  const [row] = await db.run(findState, [id]);
  return row?.["state"] as JobState | undefined;
}
