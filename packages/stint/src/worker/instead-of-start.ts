import type { ClaimedJob } from "../model/job.ts";
import type { AttemptDeps } from "./deps.ts";
import { postponed } from "./quiet-hours.ts";
import { expired, released, type Verdict } from "./verdict.ts";

/**
 * The verdict on a claimed job that must not start now: it has expired, its tokens are too old, or its quiet hours have begun. `now`: the
 * database's clock, as far as it is known.
 */
export function insteadOfStart(
  { metering, tokens, options }: Pick<AttemptDeps, "metering" | "tokens" | "options">,
  job: ClaimedJob,
  now: () => number,
): Verdict | undefined {
  if (job.expiresAtMs !== null && now() >= job.expiresAtMs) {
    metering.expiredBeforeBegin(job);
    return expired(job);
  }
  // Claimed again, it takes tokens again.
  if (tokens.isStale(job)) return released(job);
  return postponed(options, job, now);
}
