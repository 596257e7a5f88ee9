import { formatMs } from "../model/duration.ts";
import type { Attempt, Job } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import { paint, toJson, type Painted, type Style } from "./output.ts";

const stateStyles: Record<JobState, Style> = {
  scheduled: "cyan",
  ready: "blue",
  running: "yellow",
  retrying: "magenta",
  parked: "gray",
  succeeded: "green",
  dead: "red",
  cancelled: "gray",
};

export function stateText(state: JobState): Painted {
  return paint(stateStyles[state], state);
}

/** `3m 12s ago`, or `in 3m 12s`. */
export function age(date: Date | null, now = Date.now()): string {
  if (date === null) return "";
  const ms = now - date.getTime();
  return ms >= 0 ? `${formatMs(ms)} ago` : `in ${formatMs(-ms)}`;
}

/** Attempts that were spent, of how many. */
export function attemptsText({ attempts, maxAttempts }: Pick<Job, "attempts" | "maxAttempts">): string {
  return maxAttempts === null ? `${attempts}` : `${attempts}/${maxAttempts}`;
}

/** What one would ask next about a job in this state. */
export function detail(job: Job): string {
  switch (job.state) {
    case "scheduled":
      return `due ${age(job.runAt)}`;
    case "retrying":
      return `due ${age(job.runAt)}; ${lastError(job)}`;
    case "running":
      return `${job.cancelRequested ? "asked to stop, " : ""}on ${job.worker ?? "?"}, began ${age(job.claimedAt)}`;
    case "dead":
    case "cancelled":
    case "parked":
      return why(job);
    case "ready":
    case "succeeded":
      return "";
    default:
      return job.state satisfies never;
  }
}

/** The reason, and the last error unless the reason tells it already. */
function why(job: Job): string {
  const { reason } = job;
  const error = lastError(job);
  if (reason === null || error === "") return reason ?? error;
  return reason.includes(error) ? reason : `${reason}; ${error}`;
}

export function lastError({ log }: Job): string {
  return errorText(log.findLast((attempt) => attempt.error !== undefined)?.error);
}

export function errorText(error: Attempt["error"]): string {
  return error === undefined ? "" : `${error.class}: ${error.message}`;
}

// Far more than is shown, so that a password is masked whole before the rest is cut off.
const longestRead = 8_192;

/** A payload in one line, long enough for any column. */
export function payloadText(payload: unknown): string {
  return toJson(payload).slice(0, longestRead);
}
