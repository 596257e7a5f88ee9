import type { Run } from "../db/db.ts";
import { json, number, numberOrNull, readOne, texts } from "../db/row.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { statement } from "../db/statement.ts";
import type { DueSchedule, Firing } from "../model/due-slots.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** A due schedule, with the revision for which its slots may be written. */
export type DueRow = DueSchedule & { readonly revision: number };

export type DueSchedules = {
  readonly due: readonly DueRow[];
  /** The database's clock, in milliseconds. */
  readonly now: number;
  /** Time to the first of the others; null if there is none. */
  readonly nextDueMs: number | null;
};

const ms = (column: string): string => `(extract(epoch from ${column}) * 1000)::float8`;

const findDue = statement(
  "due-schedules",
  `
  with moment as materialized (
    select clock_timestamp() as now
  )
  select
    coalesce((
      select jsonb_agg(to_jsonb(d))
      from (
        select
          s.name, s.revision, s.cron, s.every_ms as "everyMs", s.zone, ${ms("s.start_at")} as "startAt", ${ms("s.end_at")} as "endAt",
          s.jitter_ms as "jitterMs", s.catch_up as "catchUp", s.overlap, s.quiet_hours as "quietHours",
          ${ms("s.next_slot")} as "nextSlot", ${ms("s.updated_at")} as since
        from stint.schedule s
        where s.due_at <= stint.by_index(moment.now)
        order by s.due_at
        limit $1
      ) d
    ), '[]') as due,
    ${ms("moment.now")} as now,
    (
      select ${ms("s.due_at - moment.now")}
      from stint.schedule s
      where s.due_at > stint.by_index(moment.now)
      order by s.due_at
      limit 1
    ) as next_due_ms
  from moment`,
);

/** Schedules that are due, the first first. They are not locked: slots of a paused process must not hold up those of others. */
export async function dueSchedules(db: Run, limit: number): Promise<DueSchedules> {
  return await readOne(db, findDue, [limit], (row) => ({
    due: json<DueRow[]>(row, "due"),
    now: number(row, "now"),
    nextDueMs: numberOrNull(row, "next_due_ms"),
  }));
}

/** When the first schedule is due. */
export const nextSchedule: IdleCheckPart = {
  sql: `
      select extract(epoch from s.due_at - clock_timestamp()) * 1000
      from stint.schedule s
      where s.due_at is not null
      order by s.due_at
      limit 1
    `,
  endsSleep: true,
};

const fire = statement(
  "fire-schedules",
  `
  select moved, fired, missed, skipped, queues
  from stint.fire_schedules($1::text::jsonb, $2::timestamptz)`,
);

export type Fired = {
  /** How many schedules went on to their next slot. The others had changed, or another worker was faster. */
  readonly moved: number;
  readonly fired: number;
  readonly missed: number;
  readonly skipped: number;
  readonly queues: readonly string[];
};

/** Write slots with their jobs, each schedule only as it was read. Not after `until`, by the database's clock. */
export async function fireSchedules(
  db: Run,
  firings: readonly { readonly schedule: DueRow; readonly firing: Firing }[],
  until: number,
): Promise<Fired> {
  const rows = firings.map(({ schedule, firing }) => ({
    name: schedule.name,
    revision: schedule.revision,
    from: timeOrNull(schedule.nextSlot),
    slots: firing.slots.map(({ slot, runAt }) => ({ slot: toTimestamp(slot), run_at: timeOrNull(runAt) })),
    missed: firing.missed && {
      slot: toTimestamp(firing.missed.slot),
      last_slot: toTimestamp(firing.missed.lastSlot),
      slots: firing.missed.slots,
    },
    next_slot: timeOrNull(firing.nextSlot),
    due_at: timeOrNull(firing.dueAt),
  }));
  return await readOne(db, fire, [JSON.stringify(rows), toTimestamp(until)], (row) => ({
    moved: number(row, "moved"),
    fired: number(row, "fired"),
    missed: number(row, "missed"),
    skipped: number(row, "skipped"),
    queues: texts(row, "queues"),
  }));
}

const fail = statement(
  "fail-schedule",
  `
  select stint.fail_schedule($1, $2::integer, $3::timestamptz, $4::timestamptz, $5::timestamptz, $6)`,
);

/** Keep with the schedule why its slot could not fire, and continue to the next slot if that is known. */
export async function failSchedule(
  db: Run,
  schedule: DueRow,
  next: Pick<Firing, "nextSlot" | "dueAt">,
  error: string,
): Promise<void> {
  const { name, revision, nextSlot } = schedule;
  await db.run(fail, [
    name,
    revision,
    timeOrNull(nextSlot),
    timeOrNull(next.nextSlot),
    timeOrNull(next.dueAt),
    error,
  ]);
}

function timeOrNull(at: number | null): string | null {
  return at === null ? null : toTimestamp(at);
}
