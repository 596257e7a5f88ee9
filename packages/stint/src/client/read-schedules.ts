import type { Db } from "../db/db.ts";
import { ScheduleNotFoundError } from "../errors.ts";
import { checkName, checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireDate, requireInteger, requireOneOf } from "../model/options.ts";
import {
  resolveTiming,
  slotsOf,
  timingKeys,
  type ScheduleTiming,
  type SlotTiming,
} from "../model/schedule.ts";
import type { AuditEntry } from "../sql/audit.ts";
import { databaseNow } from "../sql/operations.ts";
import {
  getSchedule,
  listSchedules,
  scheduleAudit,
  scheduleStates,
  type Schedule,
  type ScheduleDetail,
  type ScheduleState,
} from "../sql/schedules.ts";
import { slotsOfSchedule, type Slot } from "../sql/schedule-slots.ts";

/** Sends a statement that may be repeated. */
export type Read = <T>(work: (db: Db) => Promise<T>) => Promise<T>;

export type ListSchedulesOptions = {
  /** Names that begin with this. */
  prefix?: string;
  /** Names that contain this, case-insensitive. */
  search?: string;
  state?: ScheduleState;
  owner?: string;
  kind?: string;
  /** The `next` of the previous page. */
  after?: string;
  /** Schedules per page, at most 1000. Default 50. */
  limit?: number;
};

/** One page of schedules by name, and the start of the next page. */
export type SchedulePage = { readonly schedules: readonly Schedule[]; readonly next: string | undefined };

export type SlotsOptions = {
  /** Slots before this time. */
  before?: Date;
  /** How many, at most 1000. Default 50. */
  limit?: number;
};

export type NextSlotsOptions = {
  /** How many slots, at most 1000. Default 10. */
  count?: number;
  /** Slots after this time. Default now. */
  after?: Date;
};

export async function readSchedule(read: Read, name: string): Promise<ScheduleDetail | undefined> {
  const wanted = checkName(name, "schedules.get(name)");
  return await read(async (db) => await getSchedule(db, wanted));
}

/** @throws {ScheduleNotFoundError} There is none of this name. */
export async function requireSchedule(read: Read, name: string): Promise<ScheduleDetail> {
  const schedule = await readSchedule(read, name);
  if (schedule === undefined) throw new ScheduleNotFoundError(name);
  return schedule;
}

export async function readSchedules(read: Read, options: ListSchedulesOptions): Promise<SchedulePage> {
  const what = "schedules.list";
  refuseUnknownKeys(what, options, ["prefix", "search", "state", "owner", "kind", "after", "limit"]);
  const { prefix, search, state, owner, kind, after } = options;
  const limit = requireInteger(`${what}.limit`, options.limit ?? 50, { min: 1, max: 1000 });
  const filter = {
    after: after === undefined ? "" : checkName(after, `${what}.after`),
    prefix: prefix === undefined || prefix === "" ? "" : checkName(prefix, `${what}.prefix`),
    search: search === undefined || search === "" ? "" : checkText(search, `${what}.search`, { max: 128 }),
    state: state === undefined ? null : requireOneOf(`${what}.state`, state, scheduleStates),
    owner: owner === undefined ? null : checkText(owner, `${what}.owner`),
    kind: kind === undefined ? null : checkName(kind, `${what}.kind`),
    limit: limit + 1,
  };
  const found = await read(async (db) => await listSchedules(db, filter));
  const schedules = found.slice(0, limit);
  return { schedules, next: found.length > limit ? schedules.at(-1)?.name : undefined };
}

export async function readSlots(read: Read, name: string, options: SlotsOptions): Promise<Slot[]> {
  const what = "schedules.slots";
  refuseUnknownKeys(what, options, ["before", "limit"]);
  const wanted = checkName(name, `${what}(name)`);
  const before = options.before === undefined ? undefined : requireDate(`${what}.before`, options.before);
  const limit = requireInteger(`${what}.limit`, options.limit ?? 50, { min: 1, max: 1000 });
  return await read(async (db) => await slotsOfSchedule(db, wanted, before, limit));
}

export async function readNextSlots(
  read: Read,
  schedule: string | ScheduleTiming,
  options: NextSlotsOptions,
): Promise<Date[]> {
  const what = "schedules.next";
  refuseUnknownKeys(what, options, ["count", "after"]);
  const count = requireInteger(`${what}.count`, options.count ?? 10, { min: 1, max: 1000 });
  if (options.after !== undefined) requireDate(`${what}.after`, options.after);
  const timing =
    typeof schedule === "string" ? toTiming(await requireSchedule(read, schedule)) : given(what, schedule);
  return nextSlots(timing, options.after?.getTime() ?? Date.parse(await read(databaseNow)), count);
}

export async function readScheduleAudit(read: Read, name: string): Promise<AuditEntry[]> {
  const wanted = checkName(name, "schedules.audit(name)");
  return await read(async (db) => await scheduleAudit(db, wanted));
}

/**
 * The first slots after a moment.
 *
 * @throws {InvalidOptionError} This process does not know the pattern or the zone.
 */
export function nextSlots(timing: SlotTiming, after: number, count: number): Date[] {
  const rule = slotsOf(timing);
  const slots: Date[] = [];
  for (let slot = rule(after); slot !== null && slots.length < count; slot = rule(slot))
    slots.push(new Date(slot));
  return slots;
}

function given(what: string, timing: ScheduleTiming): SlotTiming {
  refuseUnknownKeys(what, timing, timingKeys);
  return resolveTiming(what, timing);
}

export function toTiming({ cron, everyMs, zone, startAt, endAt }: Schedule): SlotTiming {
  return {
    cron,
    everyMs,
    zone,
    startAt: startAt?.getTime() ?? null,
    endAt: endAt?.getTime() ?? null,
  };
}
