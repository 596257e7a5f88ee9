import { isTooLate } from "../db/server-clock.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { dueSlots, type Firing } from "../model/due-slots.ts";
import { jitter, longestTimerMs } from "../runtime/sleep.ts";
import {
  dueSchedules,
  failSchedule,
  fireSchedules,
  nextSchedule,
  type DueRow,
} from "../sql/fire-schedules.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const batch = 500;
/** Slots of one schedule that are decided at once. After a long outage the rest follow in further turns. */
const mostSlots = 200;
/** Computing slots must not keep the event loop from the handlers for longer. */
const longestTurnMs = 10;
const shortestRestMs = 1;
const beatenRestMs = 40;
const longestBeatenRestMs = 2_000;

type Planned = { readonly schedule: DueRow; readonly firing: Firing };

/**
 * Fires the slots of schedules when they are due. Any worker may fire any slot; the database accepts each of them once. Nothing is locked
 * while slots are computed.
 */
export const schedules = {
  name: "schedules",
  idleCheck: nextSchedule,
  create,
} as const satisfies UpkeepService;

function create({ db, logger, onPromoted }: UpkeepDeps): RunningService {
  let started = false;
  let refusals = 0;
  let beaten = 0;

  const fire = async (planned: readonly Planned[]): Promise<number> => {
    try {
      const fired = await fireSchedules(db, planned, db.clock.deadline(refusals));
      refusals = 0;
      if (fired.queues.length > 0) onPromoted(fired.queues, fired.fired);
      if (fired.missed > 0)
        logger.warn({ slots: fired.missed }, "slots of schedules were missed while no worker ran");
      return fired.moved;
    } catch (error) {
      if (isTooLate(error)) refusals += 1;
      if (dbErrorCategory(error) !== "data") throw error;
      return await fireApart(planned, error);
    }
  };
  /** One job that the table refuses failed the whole statement: find it by halves, and keep its error with its schedule. */
  const fireApart = async (planned: readonly Planned[], error: unknown): Promise<number> => {
    const [only] = planned;
    if (only === undefined) return 0;
    if (planned.length === 1) {
      await fail(only.schedule, only.firing, error);
      return 1;
    }
    const middle = planned.length >> 1;
    return (await fire(planned.slice(0, middle))) + (await fire(planned.slice(middle)));
  };
  const fail = async (
    schedule: DueRow,
    next: Pick<Firing, "nextSlot" | "dueAt">,
    error: unknown,
  ): Promise<void> => {
    logger.error({ err: error, schedule: schedule.name }, "a slot of a schedule could not fire");
    await failSchedule(db, schedule, next, error instanceof Error ? error.message : String(error));
  };

  const tick = async (): Promise<number> => {
    // Most installations have no schedule: nothing is sent before an idle check or a wake has reported one.
    if (!started) {
      started = true;
      return longestTimerMs;
    }
    const { due, now, nextDueMs } = await dueSchedules(db, batch);
    const planned: Planned[] = [];
    let turn = performance.now();
    for (const schedule of due) {
      if (performance.now() - turn > longestTurnMs) {
        await new Promise((resolve) => setImmediate(resolve));
        turn = performance.now();
      }
      try {
        planned.push({ schedule, firing: dueSlots(schedule, now, mostSlots) });
      } catch (error) {
        // A pattern or a zone that this process does not know. The series stops until the schedule is changed.
        await fail(schedule, { nextSlot: null, dueAt: null }, error);
      }
    }
    const moved = planned.length === 0 ? 0 : await fire(planned);
    const more =
      due.length === batch || planned.some(({ firing }) => firing.dueAt !== null && firing.dueAt <= now);
    // Another worker was faster, and most likely will be again; or another session holds the row in an open transaction.
    beaten = due.length > 0 && moved === 0 ? beaten + 1 : 0;
    if (beaten > 0) return jitter(Math.min(beatenRestMs * 2 ** (beaten - 1), longestBeatenRestMs));
    if (more) return 0;
    const nextMs = Math.min(soonest(planned, now) ?? Infinity, nextDueMs ?? Infinity);
    return Math.min(Math.max(shortestRestMs, nextMs), longestTimerMs);
  };
  return { service: new Service({ name: "schedules", logger, tick }) };
}

/** Time to the first of the next slots just computed. */
function soonest(planned: readonly Planned[], now: number): number | undefined {
  const times = planned.flatMap(({ firing }) => firing.dueAt ?? []);
  return times.length === 0 ? undefined : times.reduce((a, b) => Math.min(a, b)) - now;
}
