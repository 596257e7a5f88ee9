import type { Row, Run } from "../db/db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  orNull,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  time,
  timeOrNull,
} from "../db/row.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { statement } from "../db/statement.ts";
import type { ResolvedQuietHours } from "../model/quiet-hours.ts";
import { catchUps, overlaps, type CatchUp, type Overlap, type ResolvedTiming } from "../model/schedule.ts";
import { auditColumns, type AuditEntry } from "./audit.ts";
import { calledInside, readInside, type InsideStatement } from "./inside.ts";

export const scheduleStates = ["active", "paused", "ended", "broken"] as const;
/** `ended`: it has no slot any more. `broken`: its slots cannot be computed; `error` says why. */
export type ScheduleState = (typeof scheduleStates)[number];

/** A schedule as lists show it. */
export type Schedule = {
  readonly name: string;
  /** The service whose code declares it; null: made at run time. */
  readonly owner: string | null;
  readonly state: ScheduleState;
  readonly cron: string | null;
  readonly everyMs: number | null;
  readonly zone: string;
  readonly startAt: Date | null;
  readonly endAt: Date | null;
  readonly jitterMs: number;
  readonly catchUp: CatchUp;
  readonly overlap: Overlap;
  readonly quietHours: ResolvedQuietHours | null;
  readonly kind: string;
  readonly queue: string;
  readonly tenant: string | null;
  /** The next slot; null while a worker has yet to compute it, and if there is none. */
  readonly nextSlot: Date | null;
  readonly lastSlot: Date | null;
  readonly lastJobId: string | null;
  /** How many slots have fired, were missed while no worker ran, and were skipped because the job before had not ended. */
  readonly fired: number;
  readonly missed: number;
  readonly skipped: number;
  readonly error: string | null;
  readonly pausedAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly updatedBy: string;
};

/** With the payload of its jobs. */
export type ScheduleDetail = Schedule & { readonly payload: unknown };

/** A checked schedule, as the database takes it. */
export type ScheduleRow = {
  readonly name: string;
  readonly timing: ResolvedTiming;
  /** The job of each slot, without an id: JSON text. */
  readonly job: string;
  /** The first slot and when it fires; null: there is none. */
  readonly nextSlot: number | null;
  readonly dueAt: number | null;
  /** Refused if it would change a schedule of this name. */
  readonly create?: true;
};

/** Raised where a schedule belongs to another owner or exists already, or its job has not ended. */
export const conflictCode = "ST005";

const state = `case when paused_at is not null then 'paused' when due_at is not null then 'active' when error is not null then 'broken' else 'ended' end`;

const selected = `
  name, owner, cron, every_ms::float8 as "everyMs", zone, start_at as "startAt", end_at as "endAt", jitter_ms::float8 as "jitterMs",
  catch_up as "catchUp", overlap, quiet_hours as "quietHours", job ->> 'kind' as kind, job ->> 'queue' as queue, job ->> 'tenant' as tenant,
  next_slot as "nextSlot", last_slot as "lastSlot", last_job_id as "lastJobId", fired::float8, missed::float8, skipped::float8, error,
  paused_at as "pausedAt", created_at as "createdAt", updated_at as "updatedAt", updated_by as "updatedBy",
  ${state} as state`;

const toSchedule = columns<Schedule>({
  name: text,
  owner: textOrNull,
  state: oneOf(scheduleStates),
  cron: textOrNull,
  everyMs: numberOrNull,
  zone: text,
  startAt: timeOrNull,
  endAt: timeOrNull,
  jitterMs: number,
  catchUp: oneOf(catchUps),
  overlap: oneOf(overlaps),
  quietHours: orNull(json<ResolvedQuietHours>),
  kind: text,
  queue: text,
  tenant: textOrNull,
  nextSlot: timeOrNull,
  lastSlot: timeOrNull,
  lastJobId: textOrNull,
  fired: number,
  missed: number,
  skipped: number,
  error: textOrNull,
  pausedAt: timeOrNull,
  createdAt: time,
  updatedAt: time,
  updatedBy: text,
});

const find = statement(
  "schedule",
  `select ${selected}, job -> 'payload' as payload from stint.schedule where name = $1`,
);

export async function getSchedule(db: Run, name: string): Promise<ScheduleDetail | undefined> {
  return await readMaybe(db, find, [name], (row) => ({ ...toSchedule(row), payload: row["payload"] }));
}

const list = statement(
  "schedules",
  `
  select ${selected}
  from stint.schedule
  where name > $1
    and name >= $2 and ($2 = '' or name < $2 || U&'\\FFFF')
    and ($3::text is null or owner = $3)
    and ($4::text is null or job ->> 'kind' = $4)
    and ($5 = '' or position(lower($5) in lower(name)) > 0)
    and ($6::text is null or ${state} = $6)
  order by name
  limit $7`,
);

export type ScheduleFilter = {
  /** Names after this one. */
  readonly after: string;
  readonly prefix: string;
  readonly owner: string | null;
  readonly kind: string | null;
  /** Part of the name, in any case. */
  readonly search: string;
  readonly state: ScheduleState | null;
  readonly limit: number;
};

/** Schedules by name. */
export async function listSchedules(
  db: Run,
  { after, prefix, owner, kind, search, state, limit }: ScheduleFilter,
): Promise<Schedule[]> {
  return await readMany(db, list, [after, prefix, owner, kind, search, state, limit], toSchedule);
}

const count = statement(
  "schedule-counts",
  `
  select
    (count(*) filter (where paused_at is null and due_at is not null))::float8 as active,
    (count(*) filter (where paused_at is not null))::float8 as paused,
    (count(*) filter (where paused_at is null and due_at is null and error is null))::float8 as ended,
    (count(*) filter (where paused_at is null and due_at is null and error is not null))::float8 as broken
  from stint.schedule`,
);

/** How many schedules are in each state. */
export type ScheduleCounts = Readonly<Record<ScheduleState, number>>;

export async function countSchedules(db: Run): Promise<ScheduleCounts> {
  return await readOne(
    db,
    count,
    [],
    columns<ScheduleCounts>({ active: number, paused: number, ended: number, broken: number }),
  );
}

const listAudit = statement(
  "schedule-audit",
  `select at, actor, action, reason from stint.audit where schedule = $1 order by at desc, id desc limit 100`,
);

/** The newest 100 changes, newest first. */
export async function scheduleAudit(db: Run, name: string): Promise<AuditEntry[]> {
  return await readMany(db, listAudit, [name], columns<AuditEntry>(auditColumns));
}

const declare = statement(
  "declare-schedules",
  `select stint.declare_schedules($1, $2::text::jsonb, $3) as changed`,
);

/** Make the schedules of an owner those that its code declares, in one transaction. Returns how many changed. */
export async function declareSchedules(
  db: Run,
  owner: string,
  rows: readonly ScheduleRow[],
  actor: string,
): Promise<number> {
  return await readOne(db, declare, [owner, toArray(rows), actor], changed);
}

const puts = `stint.put_schedules($1::text::jsonb, $2, $3)`;
const put = statement("set-schedules", `select ${puts} as changed`);
const putInside = statement(
  "set-schedules-inside",
  calledInside(`${puts} + (select 0 from stint.wake(array['schedule'], null))`, "$4"),
);

/** The same as `putSchedules`, within the transaction `xid`. */
export function putSchedulesInside(
  rows: readonly ScheduleRow[],
  { actor, reason }: Act,
  xid: string,
): InsideStatement<number> {
  return {
    statement: putInside,
    values: [toArray(rows), actor, reason, xid],
    read: (rows) => readInside(rows)?.result as number | undefined,
  };
}

/** Write schedules made at run time: all of them, or none. Returns how many changed. */
export async function putSchedules(
  db: Run,
  rows: readonly ScheduleRow[],
  { actor, reason }: { readonly actor: string; readonly reason: string | null },
): Promise<number> {
  return await readOne(db, put, [toArray(rows), actor, reason], changed);
}

function changed(row: Row): number {
  return number(row, "changed");
}

function toArray(rows: readonly ScheduleRow[]): string {
  return `[${rows.map(toJson).join(",")}]`;
}

function toJson({ name, timing, job, nextSlot, dueAt, create }: ScheduleRow): string {
  const row = {
    name,
    cron: timing.cron,
    every_ms: timing.everyMs,
    zone: timing.zone,
    start_at: at(timing.startAt),
    end_at: at(timing.endAt),
    jitter_ms: timing.jitterMs,
    catch_up: timing.catchUp,
    overlap: timing.overlap,
    quiet_hours: timing.quietHours,
    next_slot: at(nextSlot),
    due_at: at(dueAt),
    create,
  };
  return `${JSON.stringify(row).slice(0, -1)},"job":${job}}`;
}

function at(ms: number | null): string | null {
  return ms === null ? null : toTimestamp(ms);
}

type Act = { readonly actor: string; readonly reason: string | null };

const calls = {
  remove: `stint.remove_schedule($1, $2, $3)`,
  pause: `stint.pause_schedule($1, $2, $3)`,
  resume: `stint.resume_schedule($1, $2, $3)`,
};

const changes = {
  remove: statement("remove-schedule", `select ${calls.remove} as done`),
  pause: statement("pause-schedule", `select ${calls.pause} as done`),
  resume: statement("resume-schedule", `select ${calls.resume} as done`),
};

const changesInside = {
  remove: statement("remove-schedule-inside", calledInside(calls.remove, "$4")),
  pause: statement("pause-schedule-inside", calledInside(calls.pause, "$4")),
  resume: statement("resume-schedule-inside", calledInside(calls.resume, "$4")),
};

/** The same as `changeSchedule`, within the transaction `xid`. */
export function changeScheduleInside(
  action: keyof typeof changes,
  name: string,
  { actor, reason }: Act,
  xid: string,
): InsideStatement<boolean | null> {
  return {
    statement: changesInside[action],
    values: [name, reason, actor, xid],
    read: (rows) => readInside(rows)?.result as boolean | null | undefined,
  };
}

/** Returns whether it changed anything; null if there is no such schedule. */
export async function changeSchedule(
  db: Run,
  action: keyof typeof changes,
  name: string,
  { actor, reason }: Act,
): Promise<boolean | null> {
  return await readOne(db, changes[action], [name, reason, actor], (row) => orNull(flag)(row, "done"));
}

const runs = `stint.run_schedule($1, $2, $3, $4::uuid)`;
const runNow = statement("run-schedule", `select ${runs} as id`);
const runNowInside = statement("run-schedule-inside", calledInside(runs, "$5"));

/** The same as `runSchedule`, within the transaction `xid`. */
export function runScheduleInside(
  name: string,
  id: string,
  { actor, reason }: Act,
  xid: string,
): InsideStatement<string | null> {
  return {
    statement: runNowInside,
    values: [name, reason, actor, id, xid],
    read: (rows) => readInside(rows)?.result as string | null | undefined,
  };
}

/** Enqueue the job of a schedule now. Returns its id; null if there is no such schedule. A repeat with the same id enqueues nothing. */
export async function runSchedule(
  db: Run,
  name: string,
  id: string,
  { actor, reason }: Act,
): Promise<string | null> {
  return await readOne(db, runNow, [name, reason, actor, id], (row) => textOrNull(row, "id"));
}
