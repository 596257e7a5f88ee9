import { DatabaseUnavailableError } from "../errors.ts";
import { ConnectionLost } from "./db.ts";
import { troubleOf } from "./sqlstate.ts";

/** The database could not be reached, or was lost on the way: nothing is wrong with what was asked. */
export function isAway(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof DatabaseUnavailableError;
}

/** The same may well succeed when it is sent again. */
export function isPassing(error: unknown): boolean {
  return isAway(error) || troubleOf(error) === "contention";
}
