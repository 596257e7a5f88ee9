import { formatMs } from "../model/figures.ts";
import type { Attempt, Job } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import { paint, type Painted, type Style } from "./output.ts";

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

export function lastError({ log }: Job): string {
  return errorText(log.findLast((attempt) => attempt.error !== undefined)?.error);
}

export function errorText(error: Attempt["error"]): string {
  return error === undefined ? "" : `${error.class}: ${error.message}`;
}
