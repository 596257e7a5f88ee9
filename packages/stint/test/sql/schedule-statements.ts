import type { Run } from "#stint/db/db.js";
import { newId } from "#stint/runtime/new-id.js";
import type { InsideStatement } from "#stint/sql/inside.js";
import { dueSchedules, failSchedule, fireSchedules } from "#stint/sql/fire-schedules.js";
import {
  changeSchedule,
  changeScheduleInside,
  declareSchedules,
  countSchedules,
  getSchedule,
  listSchedules,
  putSchedules,
  putSchedulesInside,
  runSchedule,
  runScheduleInside,
  scheduleAudit,
  type ScheduleRow,
} from "#stint/sql/schedules.js";
import { latestSlots, slotsOfSchedule } from "#stint/sql/schedule-slots.js";
import { resolveTiming } from "#stint/model/schedule.js";

const act = { actor: "a", reason: "r" };
const day = 86_400_000;
const timing = resolveTiming("test", { cron: "0 3 * * *" });
const schedule = (name: string): ScheduleRow => ({
  name,
  timing,
  job: '{"kind":"k","queue":"a","payload":{}}',
  nextSlot: Date.now() + day,
  dueAt: Date.now() + day,
});
const due = { ...timing, name: "made", revision: 1, nextSlot: null, since: 0 };

/** What schedules send. */
export const scheduleCalls: Record<string, (db: Run) => Promise<unknown>> = {
  declareSchedules: (db) => declareSchedules(db, "service", [schedule("declared")], "code:w"),
  putSchedules: (db) => putSchedules(db, [schedule("made")], act),
  getSchedule: (db) => getSchedule(db, "made"),
  listSchedules: (db) =>
    listSchedules(db, {
      after: "",
      prefix: "m",
      owner: null,
      kind: null,
      search: "",
      state: null,
      limit: 10,
    }),
  slotsOfSchedule: (db) => slotsOfSchedule(db, "made", undefined, 10),
  latestSlots: (db) => latestSlots(db, ["made"], 20),
  countSchedules: (db) => countSchedules(db),
  scheduleAudit: (db) => scheduleAudit(db, "made"),
  runSchedule: (db) => runSchedule(db, "made", newId(), act),
  dueSchedules: (db) => dueSchedules(db, 10),
  fireSchedules: (db) =>
    fireSchedules(
      db,
      [{ schedule: due, firing: { slots: [], missed: null, nextSlot: null, dueAt: null } }],
      Date.now() + day,
    ),
  failSchedule: (db) => failSchedule(db, due, { nextSlot: null, dueAt: null }, "no"),
  pauseSchedule: (db) => changeSchedule(db, "pause", "made", act),
  resumeSchedule: (db) => changeSchedule(db, "resume", "made", act),
  removeSchedule: (db) => changeSchedule(db, "remove", "made", act),
  putSchedulesInside: (db) => send(db, putSchedulesInside([schedule("made")], act, "1")),
  pauseScheduleInside: (db) => send(db, changeScheduleInside("pause", "made", act, "1")),
  resumeScheduleInside: (db) => send(db, changeScheduleInside("resume", "made", act, "1")),
  removeScheduleInside: (db) => send(db, changeScheduleInside("remove", "made", act, "1")),
  runScheduleInside: (db) => send(db, runScheduleInside("made", newId(), act, "1")),
};

/** Send a statement that runs inside a caller's transaction. */
export function send(db: Run, { statement, values }: InsideStatement<unknown>): Promise<unknown> {
  return db.run(statement, values);
}
