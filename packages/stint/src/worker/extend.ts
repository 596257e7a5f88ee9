import { InvalidOptionError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import type { ClaimedJob } from "../model/job.ts";

/** Let an attempt run for `forMs` from now, at most for `maxMs` in all. `timeoutMs` is what it had at first. */
export type Extension = { readonly forMs: number; readonly maxMs: number; readonly timeoutMs: number };

/** What an extension needs of its attempt. */
export type ExtendableAttempt = {
  readonly job: ClaimedJob;
  /** Whether the handler has ended. */
  readonly over: boolean;
  /** The handler does something: it is not stalled. */
  onActivity(): void;
  /** Returns the milliseconds left. */
  extend(extension: Extension): number;
};

/** `extend` of the handler's context: let the attempt run for so long from now, within its bound. Returns the milliseconds left. */
export function extend(
  attempt: ExtendableAttempt,
  duration: Duration,
  bounds: { readonly timeoutMs: number; readonly maxMs: number | undefined },
): number {
  const { job, over } = attempt;
  const { timeoutMs, maxMs } = bounds;
  const forMs = toMs(duration, "extend(duration)");
  if (maxMs === undefined) {
    const rule = `needs a bound: declare maxTimeout for ${job.kind}, as in maxTimeout: "2h"`;
    throw new InvalidOptionError("extend", rule);
  }
  if (over)
    throw new InvalidOptionError("extend", `was called after the handler of job ${job.fence.job} had ended`);
  attempt.onActivity();
  return attempt.extend({ forMs, maxMs, timeoutMs });
}
