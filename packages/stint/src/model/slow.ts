/** Why a running job is called slow. */
export type Slowness = "beyond-normal" | "near-lease" | "near-timeout";

/** Times what is usual for its kind. */
const times = 3;
/** What is shorter than this is not called slow: the usual of quick kinds is a few milliseconds, and any pause is many of those. */
export const leastMs = 1_000;
/** The share of its time a job may take, or leave of its lease, unnoticed. */
export const share = 0.7;
/** Fewer ended attempts say little about what is usual. */
export const enoughEnded = 20;

/**
 * Whether a job that has run for so long is slow, and why. A lease is renewed at each third of it, so one of which
 * more than two thirds are over is not being renewed.
 */
export function slowness(job: {
  readonly runningMs: number;
  /** The 95th percentile of its kind; null while too few have ended to know. */
  readonly usualMs: number | null;
  readonly timeoutMs: number | null;
  readonly leaseMs?: number | null;
  readonly leaseLeftMs?: number;
}): Slowness | null {
  const { runningMs, usualMs, timeoutMs, leaseMs = null, leaseLeftMs = Infinity } = job;
  if (leaseLeftMs <= (1 - share) * (leaseMs ?? 0)) return "near-lease";
  if (runningMs < leastMs) return null;
  if (timeoutMs !== null && runningMs >= share * timeoutMs) return "near-timeout";
  return usualMs !== null && runningMs > times * usualMs ? "beyond-normal" : null;
}
