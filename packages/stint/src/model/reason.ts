import { clip } from "../runtime/text.ts";
import type { Failure } from "./failure.ts";

/** Why a job is dead that no further attempt could help. The name of the error says so already, unless it is one of the user's. */
export function permanentReason(failure: Failure): string {
  return failure.class === "PermanentError" ? headline(failure) : `permanent error: ${headline(failure)}`;
}

/** Why a job is dead whose attempts are spent. */
export function exhaustedReason(failure: Failure, spent: number, allowed: number): string {
  return `failed ${spent} of ${allowed} attempts: ${headline(failure)}`;
}

/** Why a job is dead whose handler did its work and returned what its kind's result schema refuses. */
export function invalidResultReason(failure: Failure): string {
  return `invalid result: ${headline(failure)}`;
}

function headline(failure: Failure): string {
  return clip(`${failure.class}: ${failure.message}`.replaceAll(/\s+/g, " "), 300);
}
