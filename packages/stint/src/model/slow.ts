/** Why a running job is called slow. */
export type Slowness = "beyond-normal" | "near-lease" | "near-timeout" | "stalled";

/** A run is beyond normal once it takes this many times the 95th percentile of its kind. */
const times = 3;
/** Shorter runs are never slow: a quick kind takes a few milliseconds, and any pause is many times that. */
export const leastMs = 1_000;
/** The share of its timeout that a job may use, and of its lease that may pass without a renewal, before it is slow. */
export const share = 0.7;
/** Fewer ended attempts are too few for a percentile. */
export const enoughEnded = 20;

/** `p95Ms`: the 95th percentile of the kind; null while too few attempts have ended. */
export function isBeyondNormal(runningMs: number, p95Ms: number | null): p95Ms is number {
  return p95Ms !== null && runningMs >= leastMs && runningMs > times * p95Ms;
}

export function isNearTimeout(runningMs: number, timeoutMs: number | null): timeoutMs is number {
  return timeoutMs !== null && runningMs >= share * timeoutMs;
}

/** Whether a handler has reported no step, checkpoint, progress or log line for longer than its kind's `stallAfter`. */
export function isStalled(quietMs: number, stallAfterMs: number | null): stallAfterMs is number {
  return stallAfterMs !== null && quietMs > stallAfterMs;
}

/**
 * Whether a job that has run for this long is slow, and why. Leases are renewed after each third, so a lease with more than two thirds
 * gone is not being renewed.
 */
export function slowness(job: {
  readonly runningMs: number;
  readonly p95Ms: number | null;
  readonly timeoutMs: number | null;
  readonly leaseMs?: number | null;
  readonly leaseLeftMs?: number;
  /** Since its handler last reported anything, and how long that may take. */
  readonly quietMs?: number;
  readonly stallAfterMs?: number | null;
}): Slowness | null {
  const { runningMs, p95Ms, timeoutMs, leaseMs = null, leaseLeftMs = Infinity } = job;
  if (leaseLeftMs <= (1 - share) * (leaseMs ?? 0)) return "near-lease";
  if (isStalled(job.quietMs ?? 0, job.stallAfterMs ?? null)) return "stalled";
  if (runningMs >= leastMs && isNearTimeout(runningMs, timeoutMs)) return "near-timeout";
  return isBeyondNormal(runningMs, p95Ms) ? "beyond-normal" : null;
}
