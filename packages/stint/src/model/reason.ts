import { clip } from "../runtime/text.ts";
import type { Failure } from "./failure.ts";

/** The reason of a job that died of a permanent error. The error's name is added if it is a class of the user. */
export function permanentReason(failure: Failure): string {
  return failure.class === "PermanentError" ? headline(failure) : `permanent error: ${headline(failure)}`;
}

/** The reason of a job whose attempts are spent. */
export function exhaustedReason(failure: Failure, spent: number, allowed: number): string {
  return `failed ${spent} of ${allowed} attempts: ${headline(failure)}`;
}

/** The reason of a job whose isolated handler crashed too often. */
export function crashedReason(failure: Failure, crashes: number): string {
  return `its handler crashed ${crashes === 1 ? "once" : `${crashes} times`}: ${headline(failure)}`;
}

/** The reason of a job whose handler finished and returned a value that the kind's result schema refuses. */
export function invalidResultReason(failure: Failure): string {
  return `invalid result: ${headline(failure)}`;
}

function headline(failure: Failure): string {
  return clip(`${failure.class}: ${failure.message}`.replaceAll(/\s+/g, " "), 300);
}
