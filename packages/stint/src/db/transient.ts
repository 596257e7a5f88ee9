import { DatabaseUnavailableError } from "../errors.ts";
import { ConnectionLost } from "./db.ts";
import { isTooEarly, isTooLate } from "./server-clock.ts";
import { codeOf, dbErrorCategory } from "./sqlstate.ts";

/** The database could not be reached, or the connection broke. The statement itself is not at fault. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof DatabaseUnavailableError;
}

/** The same statement may succeed when it is sent again. */
export function isTransient(error: unknown): boolean {
  return (
    isUnavailable(error) || dbErrorCategory(error) === "contention" || isTooLate(error) || isTooEarly(error)
  );
}

/** The server reported that it ends the session: a statement sent on it has ended, or never starts. */
export function isSessionEnded(error: ConnectionLost): boolean {
  return /^57P0[125]$/.test(codeOf(error.cause) ?? "");
}
