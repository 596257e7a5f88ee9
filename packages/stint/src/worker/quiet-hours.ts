import type { ClaimedJob } from "../model/job.ts";
import { afterQuietHours, resolveQuietHours, type ResolvedQuietHours } from "../model/quiet-hours.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { Verdict } from "./verdict.ts";

type Options = Pick<ResolvedWorkerOptions, "handlers">;

/** The quiet hours of a job: its own, which may be those of its schedule, else those of its kind. */
function quietHoursOf({ handlers }: Options, job: ClaimedJob): ResolvedQuietHours | undefined {
  const own = job.meta["quietHours"];
  return own === undefined ? handlers.get(job.kind)?.policy.quietHours : readQuietHours(own);
}

/** Anything may have written the meta of a job. */
function readQuietHours(value: unknown): ResolvedQuietHours | undefined {
  try {
    return resolveQuietHours("quietHours", value as ResolvedQuietHours);
  } catch {
    return undefined;
  }
}

/** The verdict on a job that must not start now: it waits for the end of its quiet hours, and spends no attempt. */
export function postponed(options: Options, job: ClaimedJob, clock: () => number): Verdict | undefined {
  const hours = quietHoursOf(options, job);
  if (hours === undefined) return undefined;
  const now = clock();
  const start = afterQuietHours(hours, now);
  if (start <= now) return undefined;
  return {
    ends: false,
    fence: job.fence,
    state: "scheduled",
    delayMs: start - now,
    countsAs: "interruption",
    ending: { outcome: "snoozed" },
  };
}

/** The same verdict, whose retry or snooze does not end within the quiet hours of the job. */
export function outsideQuietHours(
  options: Options,
  job: ClaimedJob,
  verdict: Verdict,
  clock: () => number,
): Verdict {
  if (verdict.ends || verdict.delayMs === null || verdict.park !== undefined) return verdict;
  if (verdict.state !== "retrying" && verdict.state !== "scheduled") return verdict;
  const hours = quietHoursOf(options, job);
  if (hours === undefined) return verdict;
  const now = clock();
  const delayMs = afterQuietHours(hours, now + verdict.delayMs) - now;
  return delayMs === verdict.delayMs ? verdict : { ...verdict, delayMs };
}
