import { DatabaseUnavailableError } from "../errors.ts";
import { ConnectionLost } from "./db.ts";
import { isTooEarly, isTooLate } from "./server-clock.ts";
import { codeOf, troubleOf } from "./sqlstate.ts";

/** The database could not be reached, or was lost on the way: nothing is wrong with what was asked. */
export function isAway(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof DatabaseUnavailableError;
}

/** The same may well succeed when it is sent again. */
export function isPassing(error: unknown): boolean {
  return isAway(error) || troubleOf(error) === "contention" || isTooLate(error) || isTooEarly(error);
}

/** The server itself said that it ends this session: what was sent on it is over, or never begins. */
export function isSessionOver(error: ConnectionLost): boolean {
  return /^57P0[125]$/.test(codeOf(error.cause) ?? "");
}
