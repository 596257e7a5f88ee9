import type { Run } from "../db/db.ts";
import { columns, number, oneOf, readMany, text, textOrNull, time, timeOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** One row of the ledger. A row of missed slots may be for several. */
export type Slot = {
  readonly slot: Date;
  readonly outcome: "fired" | "missed" | "skipped" | "failed" | "run-now";
  /** How many slots, and the last of them. */
  readonly slots: number;
  readonly lastSlot: Date | null;
  readonly jobId: string | null;
  /** When it was written. */
  readonly at: Date;
};

const listSlots = statement(
  "schedule-slots",
  `
  select slot, outcome, slots, last_slot as "lastSlot", job_id as "jobId", at
  from stint.schedule_slot
  where schedule = $1 and slot < coalesce($2::timestamptz, 'infinity')
  order by slot desc
  limit $3`,
);

const toSlot = columns<Slot>({
  slot: time,
  outcome: oneOf(["fired", "missed", "skipped", "failed", "run-now"]),
  slots: number,
  lastSlot: timeOrNull,
  jobId: textOrNull,
  at: time,
});

/** The latest slots, newest first. */
export async function slotsOfSchedule(
  db: Run,
  name: string,
  before: Date | undefined,
  limit: number,
): Promise<Slot[]> {
  return await readMany(db, listSlots, [name, before ?? null, limit], toSlot);
}

const listLatest = statement(
  "schedules-latest-slots",
  `
  select l.schedule, l.slot, l.outcome, l.slots, l.last_slot as "lastSlot", l.job_id as "jobId", l.at
  from unnest($1::text[]) w (name)
  cross join lateral (
    select * from stint.schedule_slot s where s.schedule = w.name order by s.slot desc limit $2
  ) l`,
);

/** The latest slots of several schedules, newest first, by the name of the schedule. */
export async function latestSlots(
  db: Run,
  names: readonly string[],
  limit: number,
): Promise<Map<string, Slot[]>> {
  const found = new Map<string, Slot[]>(names.map((name) => [name, []]));
  const rows = await readMany(db, listLatest, [names, limit], (row) => ({
    schedule: text(row, "schedule"),
    slot: toSlot(row),
  }));
  for (const { schedule, slot } of rows) found.get(schedule)?.push(slot);
  return found;
}
