import { afterQuietHours } from "./quiet-hours.ts";
import { fireTime, slotsOf, type ResolvedTiming } from "./schedule.ts";

/** A schedule that is due, as the database keeps it. */
export type DueSchedule = ResolvedTiming & {
  readonly name: string;
  /** The slot that is due; null if none was computed yet. */
  readonly nextSlot: number | null;
  /** From when on slots count, if none was computed yet. */
  readonly since: number;
};

/** What to do with the due slots of one schedule. */
export type Firing = {
  /** Slots to fire, oldest first, and when their jobs may run if not at once. */
  readonly slots: readonly { readonly slot: number; readonly runAt: number | null }[];
  readonly missed: { readonly slot: number; readonly lastSlot: number; readonly slots: number } | null;
  /** The slot after these; null if there is none. */
  readonly nextSlot: number | null;
  /** When that slot fires. */
  readonly dueAt: number | null;
};

/** A slot that fires later than this was missed. With `catchUp: "none"` it does not run. */
export const lateMs = 60_000;

/**
 * Decide about the slots that are due `now`, at most `most` of them: the rest follow at once. The next slot is computed from the slot
 * before, never from now, so that no slot is lost while workers are late.
 *
 * @throws {InvalidOptionError} This process does not know the pattern or the zone.
 */
export function dueSlots(schedule: DueSchedule, now: number, most: number): Firing {
  const { name, jitterMs, catchUp, quietHours } = schedule;
  const next = slotsOf(schedule);
  const due: number[] = [];
  let slot = schedule.nextSlot ?? next(schedule.since);
  while (slot !== null && due.length < most && fireTime(name, slot, jitterMs) <= now) {
    due.push(slot);
    slot = next(slot);
  }
  const dueAt = slot === null ? null : fireTime(name, slot, jitterMs);
  const more = dueAt !== null && dueAt <= now;
  const runs =
    catchUp === "all" ? due : more ? [] : lastOf(due, catchUp === "none" ? now - lateMs - jitterMs : 0);
  const missed = due.slice(0, due.length - runs.length);
  const [first] = missed;
  return {
    slots: runs.map((at) => ({
      slot: at,
      runAt: quietHours === null ? null : laterThan(now, afterQuietHours(quietHours, now)),
    })),
    missed:
      first === undefined ? null : { slot: first, lastSlot: missed.at(-1) ?? first, slots: missed.length },
    nextSlot: slot,
    dueAt,
  };
}

/** The last slot, if it is not before `earliest`. */
function lastOf(slots: readonly number[], earliest: number): readonly number[] {
  return slots.slice(-1).filter((slot) => slot >= earliest);
}

function laterThan(now: number, at: number): number | null {
  return at > now ? at : null;
}
