import { requirePriority, type JobTypes } from "../define.ts";
import { InvalidOptionError, JobNotFoundError, WrongStateError } from "../errors.ts";
import type { Duration } from "../model/duration.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { liveStates } from "../model/state.ts";
import type { Change, Changed } from "../sql/change.ts";
import { setTime } from "./prepare.ts";

/** What becomes of a waiting job. What is left out stays as it is. */
export type JobChange<Types extends JobTypes = JobTypes> = (
  | { runAt?: Date; delay?: undefined }
  | {
      runAt?: undefined;
      /** Run after this delay, counted from now by the database's clock. */
      delay?: Duration;
    }
) & {
  /** The job has all its attempts again, and forgets its steps and its checkpoint. Its key stays. */
  payload?: Types["in"];
  /** Smaller runs first. */
  priority?: number;
};

/** Check a change, except for its payload. */
export function resolveChange(change: JobChange): Change {
  const given: unknown = change;
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidOptionError("change", "takes an object such as { priority: 5 }");
  refuseUnknownKeys("change", change, ["payload", "runAt", "delay", "priority"]);
  const { payload, runAt, delay, priority } = change;
  if ([payload, runAt, delay, priority].every((value) => value === undefined))
    throw new InvalidOptionError("change", "takes payload, runAt, delay or priority; none was given");
  const wanted: { run_at?: string; delay_ms?: number; priority?: number } = {};
  setTime(wanted, "change", change);
  if (priority !== undefined) wanted.priority = requirePriority("change.priority", priority);
  return wanted;
}

/** @throws The job was not changed. */
export function requireChanged(id: string, change: Change, { status, state, park }: Changed): void {
  if (status === "changed") return;
  if (status === "absent") throw new JobNotFoundError(id);
  const waiting = liveStates.filter((one) => one !== "running");
  if (state !== "parked") throw new WrongStateError(id, state ?? "gone", "change", waiting);
  const what = change.payload === undefined ? "its run time" : "its payload";
  throw new WrongStateError(id, `parked (${park})`, `a change of ${what}`, [
    "scheduled",
    "ready",
    "retrying",
  ]);
}
