import type { Run } from "../db/db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  readMany,
  readOne,
  text,
  texts,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { pauseScopes, type Pause, type PauseId } from "../model/pause.ts";
import { auditColumns, type AuditEntry, type ChangeAudit } from "./audit.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import type { IdleCheckPart } from "./idle-check.ts";
import { afterFollowUps, followed, tallied, unleased } from "./transitions.ts";

/** Whether the pause `p` is in force. */
export const pauseInForce = `(p.until is null or p.until > clock_timestamp())`;

const setPause = statement("pause", `select stint.pause($1, $2, $3, $4::timestamptz, $5, $6::uuid)`);
const pauseFor = statement(
  "pause-for",
  `select stint.pause($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond', $5, $6::uuid)`,
);

/** Pause, until a time, for milliseconds from now, or until it is resumed. */
export async function pause(
  db: Run,
  { scope, name }: PauseId,
  until: Date | number | null,
  { auditId, actor, reason }: ChangeAudit,
): Promise<void> {
  const at = until instanceof Date ? until.toISOString() : until;
  await db.run(typeof until === "number" ? pauseFor : setPause, [scope, name, reason, at, actor, auditId]);
}

const endPause = statement("resume", `select stint.resume($1, $2, $3, $4, $5::uuid) as resumed`);

/** False: it was not paused. */
export async function resume(
  db: Run,
  { scope, name }: PauseId,
  { auditId, actor, reason }: ChangeAudit,
): Promise<boolean> {
  return await readOne(db, endPause, [scope, name, reason, actor, auditId], (row) => flag(row, "resumed"));
}

/** Parked jobs are counted up to this. */
const mostCounted = 10_000;

const list = statement(
  "pauses",
  `
  select
    p.scope, p.name, p.until, p.reason, p.paused_by as "pausedBy", p.paused_at as "pausedAt",
    (
      select count(*)
      from (
        select
        from stint.paused_job w
        join stint.job j on j.id = w.job_id and j.state = 'parked' and j.park_reason = 'paused'
        where w.scope = p.scope and w.name = p.name
        limit ${mostCounted}
      ) parked
    )::integer as "parkedJobs"
  from stint.pause p
  where ${pauseInForce}
  order by p.scope, p.name
  limit 1000`,
);

const readScope = oneOf(pauseScopes);

const toPause = columns<Pause>({
  scope: readScope,
  name: text,
  until: timeOrNull,
  reason: text,
  pausedBy: text,
  pausedAt: time,
  parkedJobs: number,
});

/** The pauses in force, at most 1,000. */
export async function pauses(db: Run): Promise<Pause[]> {
  return await readMany(db, list, [], toPause);
}

/** A change of a pause. */
export type PauseAuditEntry = AuditEntry & {
  readonly change: { readonly until: { readonly from: string | null; readonly to: string | null } };
};

const findAudit = statement(
  "pause-audit",
  `
  select at, actor, action, reason, change
  from stint.audit
  where (queue = $1 or subject = $2) and action in ('pause', 'resume')
  order by at desc, id desc
  limit 100`,
);

const toAuditEntry = columns<PauseAuditEntry>({
  ...auditColumns,
  change: json<PauseAuditEntry["change"]>,
});

/** The newest 100 changes of one pause, newest first. */
export async function pauseAudit(db: Run, { scope, name }: PauseId): Promise<PauseAuditEntry[]> {
  const isQueue = scope === "queue";
  return await readMany(
    db,
    findAudit,
    [isQueue ? name : null, isQueue ? null : `${scope}:${name}`],
    toAuditEntry,
  );
}

// ---- For workers ----

/** A pause as a worker knows it. `leftMs`: until it ends by itself, negative when it is over; null: when it is resumed. */
export type KnownPause = PauseId & { readonly leftMs: number | null };

const readAll = statement(
  "known-pauses",
  `
  select p.scope, p.name, extract(epoch from p.until - clock_timestamp())::float8 * 1000 as "leftMs"
  from stint.pause p`,
);

const toKnown = columns<KnownPause>({ scope: readScope, name: text, leftMs: numberOrNull });

export async function knownPauses(db: Run): Promise<KnownPause[]> {
  return await readMany(db, readAll, [], toKnown);
}

/** Whether anything is paused, and how long until the first pause ends by itself; a pause without an end counts as decades. */
export const anyPause: IdleCheckPart = {
  sql: `select coalesce(extract(epoch from p.until - clock_timestamp()) * 1000, 1e12) from stint.pause p order by p.until limit 1`,
  endsSleep: true,
};

const lift = statement("lift-paused", `select l.queues, l.more from stint.lift_paused($1) l`);

/** Make jobs of pauses that are over ready again. `more`: some are left. */
export async function liftPaused(db: Run, limit: number): Promise<{ queues: string[]; more: boolean }> {
  return await readOne(db, lift, [limit], (row) => ({
    queues: texts(row, "queues"),
    more: flag(row, "more"),
  }));
}

/**
 * The share lock orders this and a resume: either the job is parked before the resume commits, and is lifted with the others, or the pause is
 * over and the job is not parked.
 */
const hold = statement(
  "hold-paused",
  `
  with mine as (
    select *
    from unnest(
      (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[])
    ) as m (id, epoch, lease_id, scope, name)
  ), paused as materialized (
    select p.scope, p.name
    from stint.pause p
    where (p.scope, p.name) in (select m.scope, m.name from mine m)
      and ${pauseInForce}
    for share
  ), free as materialized (
    select j.id, j.lease_id, m.scope, m.name
    from mine m
    join paused on paused.scope = m.scope and paused.name = m.name
    join stint.job j on ${fenced}
    where not j.cancel_requested
    for update of j skip locked
  ), back as (
    update stint.job j
    set state = 'parked',
        park_reason = 'paused',
        attempts = j.attempts - 1,
        ${unleased}
    from free
    where j.id = free.id and j.lease_id = free.lease_id
    returning j.id, j.epoch, free.lease_id, free.scope, free.name, j.queue, j.kind, j.priority, j.state, j.has_follow_ups
  ), noted as (
    insert into stint.paused_job (job_id, scope, name)
    select id, scope, name from back
    on conflict (job_id) do update set scope = excluded.scope, name = excluded.name
  ), tallied as (
    ${tallied("back", { was: ["running"], becomes: ["parked"] })}
  ), ${followed("back")}
  select id, epoch, lease_id from back where ${afterFollowUps}`,
);

/** A claimed job that has not begun, and the pause of its tenant or key. */
export type HeldJob = { readonly fence: Fence; readonly pause: PauseId };

/**
 * Park jobs that were claimed and have not begun, because their tenant or key is paused. Nothing is spent and nothing is logged. Returns the
 * fences of the jobs that are parked now; the others are still the caller's.
 */
export async function holdPaused(db: Run, jobs: readonly HeldJob[]): Promise<Set<Fence>> {
  const fences = jobs.map(({ fence }) => fence);
  const rows = await db.run(hold, [
    ...fenceValues(fences),
    jobs.map((job) => job.pause.scope),
    jobs.map((job) => job.pause.name),
  ]);
  return fencesIn(rows, fences);
}
