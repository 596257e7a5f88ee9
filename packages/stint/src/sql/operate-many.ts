import type { Row, Run } from "../db/db.ts";
import { readMany, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { awoken, mayLift, unparked } from "./park.ts";
import { jobStateOrNull } from "./rows.ts";
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
} from "./transitions.ts";

/** Some jobs of a bulk operation. The rules are those of `operate.ts`, and so is the audit: a row for each job. */
export type Batch = {
  readonly ids: readonly string[];
  /** The id of each job's audit row, the same at every send of this batch: a job that was acted on before is not acted on again. */
  readonly auditIds: readonly string[];
  /** Acted on only in these states: what was searched for, of those that allow it. */
  readonly states: readonly JobState[];
  /** Acted on only if they were in these states at this moment, by the database's clock, as far as their rows show. */
  readonly until: string;
  readonly actor: string;
  readonly reason: string;
};

/**
 * A job that was acted on, its queue and the state it left. If an earlier send of this batch acted on it, both are as they are now, and null
 * if the job has ended since.
 */
export type Acted = { readonly id: string; readonly queue: string | null; readonly was: JobState | null };

/** The jobs that an earlier send of this batch acted on, whose response was lost. Their audit rows exist. */
const before = `
  with asked_for as (
    select * from unnest($1::uuid[], $6::uuid[]) as a (id, audit_id)
  ), before as materialized (
    select a.id from asked_for a join stint.audit n on n.id = a.audit_id
  )`;
const andBefore = `
  union all
  select b.id, j.queue, j.state as was from before b left join stint.job j on j.id = b.id`;

/** If this batch is sent again while the first send is still running, the audit row of the first send stands for both. */
const noted = (action: "cancel" | "run-now" | "replay", acted: string): string =>
  `${audited(action, { id: "a.audit_id", actor: "$4", reason: "$5", job: "a.id", rows: `${acted} join asked_for a using (id)` })}
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
 * Rows are locked in the order of their ids, and locked rows are skipped. A job that another session is claiming, renewing or settling is left
 * for the next try: waiting would block that session's worker, or this statement behind an open transaction.
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
    returning j.id, j.queue, p.state as was
  ), ${toHistory(
    { using: "picked p", where: "j.id = p.id and j.state <> 'running' and p.state <> 'running'" },
    { state: "'cancelled'::stint.job_state", reason: "$5::text" },
    "id",
  )}, tallied as (
    ${tallied("gone", { was: ["scheduled", "ready", "retrying", "parked"], becomes: ["cancelled"] })}
  ), acted as (
    select id, queue, was from asked
    union all
    select id, queue, was from gone
  ), noted as (
    ${noted("cancel", "acted")}
  ), ${followed("gone", ofEnded)}
  select id, queue, was from acted where ${afterFollowUps}${andBefore}`,
);

const runManyNow = statement(
  "run-many-now",
  `${picked}, moved as (
    update stint.job j
    set state = 'ready', run_at = clock_timestamp(), ${unparked}
    from picked p
    where j.id = p.id and j.state in ('scheduled', 'retrying', 'parked') and ${mayLift}
    returning j.id, j.kind, j.queue, j.priority, p.state as was
  ), tallied as (
    ${tallied("moved", { was: ["scheduled", "retrying", "parked"], becomes: ["ready"] })}
  ), awoken as (
    ${awoken("moved")}
  ), noted as (
    ${noted("run-now", "moved")}
  )
  select id, queue, was from moved${andBefore}`,
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
  ), ${toLive({ using: "picked p", where: "h.id = p.id and h.state in ('dead', 'cancelled') and not stint.is_stopped(h.id)" }, "id, has_follow_ups")}, tallied as (
    ${tallied("gone", { was: ["dead", "cancelled"], becomes: ["ready"] })}
  ), noted as (
    ${noted("replay", "gone")}
  ), ${rejoined}
  select id, queue, was from gone where ${afterRejoining}${andBefore}`,
);

const statements = { cancel: cancelMany, "run-now": runManyNow, replay: replayMany };

/** Act on many jobs in one statement. Returns the jobs that were acted on; the others were locked or in another state. */
export async function actOnMany(
  db: Run,
  action: keyof typeof statements,
  { ids, auditIds, states, until, actor, reason }: Batch,
): Promise<Acted[]> {
  const values = [ids, states, until, actor, reason, auditIds];
  return await readMany(db, statements[action], values, toActed);
}

function toActed(row: Row): Acted {
  return {
    id: text(row, "id"),
    queue: textOrNull(row, "queue"),
    was: jobStateOrNull(row, "was"),
  };
}
