import {
  nextSlots,
  readNextSlots,
  readSchedule,
  readScheduleAudit,
  readSchedules,
  readSlots,
  toTiming,
  type Read,
  type ListSchedulesOptions,
  type NextSlotsOptions,
  type SlotsOptions,
} from "../client/read-schedules.ts";
import { withRetry } from "../client/retry.ts";
import type { Db } from "../db/db.ts";
import type { ScheduleTiming } from "../model/schedule.ts";
import { findZone, localText } from "../model/zone.ts";
import type { AuditEntry } from "../sql/audit.ts";
import { databaseNow } from "../sql/operations.ts";
import { countSchedules, type Schedule, type ScheduleCounts, type ScheduleDetail } from "../sql/schedules.ts";
import { latestSlots, type Slot } from "../sql/schedule-slots.ts";

/** A schedule in a list. */
export type ScheduleRow = Schedule & {
  /** Its latest slots, newest first, at most twenty. */
  readonly latest: readonly Slot[];
  /** Its next slots, at most twenty. Of a paused schedule: those it would have. */
  readonly coming: readonly Date[];
};

export type ScheduleRows = {
  readonly schedules: readonly ScheduleRow[];
  /** Pass it as `after` for the next page. */
  readonly next: string | null;
};

export type ScheduleView = {
  readonly schedule: ScheduleDetail;
  /** The newest fifty rows of its ledger, newest first. */
  readonly slots: readonly Slot[];
  /** The next fifty slots. */
  readonly coming: readonly Date[];
  /** The newest 100 changes, newest first. */
  readonly audit: readonly AuditEntry[];
};

/** Slots as the clocks of a zone show them: `Sun 2026-03-29 03:00:00 +02:00`. */
export type LocalSlots = {
  readonly zone: string;
  readonly slots: readonly { readonly at: Date; readonly local: string }[];
};

export type SchedulesInspector = {
  /** Schedules by name, a page at a time, with their latest and next slots. */
  schedules(filter?: ListSchedulesOptions): Promise<ScheduleRows>;
  scheduleCounts(): Promise<ScheduleCounts>;
  schedule(name: string): Promise<ScheduleView | undefined>;
  scheduleSlots(name: string, options?: SlotsOptions): Promise<readonly Slot[]>;
  /**
   * The next slots of a schedule, or of a timing that is not stored, in local times of a zone. Default: the zone of the timing.
   *
   * @throws {InvalidOptionError} The timing or the zone cannot work.
   * @throws {ScheduleNotFoundError} There is none of this name.
   */
  nextSlots(
    schedule: string | ScheduleTiming,
    options?: NextSlotsOptions & { readonly zone?: string },
  ): Promise<LocalSlots>;
};

const mostInList = 20;
const mostInView = 50;

/** Reads schedules, their ledger and their next slots. */
export function inspectSchedules(db: Db): SchedulesInspector {
  const read: Read = async (work) => await withRetry(db, work);
  return {
    async schedules(filter = {}) {
      const { schedules, next } = await readSchedules(read, filter);
      if (schedules.length === 0) return { schedules: [], next: null };
      const names = schedules.map(({ name }) => name);
      const [latest, now] = await Promise.all([
        read(async (run) => await latestSlots(run, names, mostInList)),
        read(databaseNow),
      ]);
      const rowOf = (schedule: Schedule): ScheduleRow => ({
        ...schedule,
        latest: latest.get(schedule.name) ?? [],
        coming: comingSlots(schedule, Date.parse(now), mostInList),
      });
      return { schedules: schedules.map(rowOf), next: next ?? null };
    },

    scheduleCounts: async () => await read(countSchedules),

    async schedule(name) {
      const schedule = await readSchedule(read, name);
      if (schedule === undefined) return undefined;
      const [slots, audit, now] = await Promise.all([
        readSlots(read, name, { limit: mostInView }),
        readScheduleAudit(read, name),
        read(databaseNow),
      ]);
      return { schedule, slots, audit, coming: comingSlots(schedule, Date.parse(now), mostInView) };
    },

    scheduleSlots: async (name, options = {}) => await readSlots(read, name, options),

    async nextSlots(schedule, { zone: wanted, ...options } = {}) {
      const shown = wanted === undefined ? undefined : findZone(wanted, "schedules.next.zone");
      const slots = await readNextSlots(read, schedule, options);
      const zone = shown ?? findZone(await zoneOf(read, schedule), "zone");
      return {
        zone: zone.name,
        slots: slots.map((at) => ({ at, local: localText(zone, at.getTime()) })),
      };
    },
  };
}

async function zoneOf(read: Read, schedule: string | ScheduleTiming): Promise<string> {
  return typeof schedule === "string"
    ? ((await readSchedule(read, schedule))?.zone ?? "UTC")
    : (schedule.zone ?? "UTC");
}

/** None for a schedule whose pattern or zone this process does not know: one broken schedule must not hide the list. */
function comingSlots(schedule: Schedule, now: number, count: number): readonly Date[] {
  if (schedule.state === "ended" || schedule.state === "broken") return [];
  try {
    return nextSlots(toTiming(schedule), now, count);
  } catch {
    return [];
  }
}
