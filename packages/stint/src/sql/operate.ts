import type { Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { oneOf, readMaybe, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { awoken, mayLift, unparked } from "./park.ts";
import { jobState } from "./rows.ts";
import {
  afterFollowUps,
  afterRejoining,
  audited,
  followed,
  ofEnded,
  rejoined,
  tallied,
  toHistory,
  toLive,
  type AuditInfo,
} from "./transitions.ts";

// What a person does to one job. `operate-many.ts` does the same to many.

/**
 * An action that reaches the job after its deadline fails and changes nothing. A late `cancel` would end a job that was replayed since
 * then. Checked after the row is locked: the statement may have waited for the lock.
 */
const inTime = `(clock_timestamp() < $5::timestamptz or stint.too_late())`;

const valuesOf = (id: string, { auditId, actor, reason, until }: AuditInfo): unknown[] => [
  id,
  auditId,
  actor,
  reason,
  until === undefined ? "infinity" : toTimestamp(until),
];

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
  ), ${followed("gone", ofEnded)}
  select 'running' as was from asked where ${inTime} and ${afterFollowUps}
  union all
  select 'waiting' as was from ended where ${inTime}`,
);

const readWas = oneOf(["running", "waiting"]);

/**
 * End a job that waits, or ask the worker that runs it to stop. After this no further attempt starts.
 * Returns which of the two happened; undefined if the job is neither waiting nor running.
 */
export async function cancel(
  db: Run,
  id: string,
  audit: AuditInfo,
): Promise<"running" | "waiting" | undefined> {
  return await readMaybe(db, cancelJob, valuesOf(id, audit), (row) => readWas(row, "was"));
}

const runJobNow = statement(
  "run-now",
  `
  with waiting as materialized (
    select j.id, j.state
    from stint.job j
    where j.id = $1 and j.state in ('scheduled', 'retrying', 'parked') and ${mayLift}
    for update
  ), moved as (
    update stint.job j
    set state = 'ready', run_at = clock_timestamp(), ${unparked}
    from waiting
    where j.id = waiting.id
    returning j.id, j.queue, j.kind, j.priority, waiting.state as was
  ), tallied as (
    ${tallied("moved", { was: ["scheduled", "retrying", "parked"], becomes: ["ready"] })}
  ), awoken as (
    ${awoken("moved")}
  ), noted as (
    ${audited("run-now", { ...by, rows: "moved" })}
  )
  select queue from moved where ${inTime}`,
);

/** Make a waiting job ready at once. Returns its queue; undefined if the job does not wait. */
export async function runNow(db: Run, id: string, audit: AuditInfo): Promise<string | undefined> {
  return await readMaybe(db, runJobNow, valuesOf(id, audit), (row) => text(row, "queue"));
}

const replayJob = statement(
  "replay",
  `
  with ${toLive({ where: "h.id = $1 and h.state in ('dead', 'cancelled') and not stint.is_stopped(h.id)" }, "id, queue, has_follow_ups")}, tallied as (
    ${tallied("gone", { was: ["dead", "cancelled"], becomes: ["ready"] })}
  ), noted as (
    ${audited("replay", { ...by, rows: "back" })}
  ), ${rejoined}
  select queue from back where ${inTime} and ${afterRejoining}`,
);

/** Requeue a dead or cancelled job with fresh attempts. Returns its queue; undefined if the job is neither. */
export async function replay(db: Run, id: string, audit: AuditInfo): Promise<string | undefined> {
  return await readMaybe(db, replayJob, valuesOf(id, audit), (row) => text(row, "queue"));
}

const findState = statement("state", `select state from stint.jobs where id = $1`);

export async function stateOf(db: Run, id: string): Promise<JobState | undefined> {
  return await readMaybe(db, findState, [id], (row) => jobState(row, "state"));
}
