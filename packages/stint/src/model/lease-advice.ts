import { formatMs } from "./duration.ts";

/** A lease this long is noticed by people: so long a job of a worker that died waits. */
const longMs = 60_000;
/** Times the 99th percentile beyond which a long lease has no use. */
const tooMany = 20;

/**
 * What to say of a kind's lease, from how long its runs last; null if nothing.
 *
 * @param p99 Milliseconds that 99 of 100 runs stay below; null while too few have ended.
 */
export function leaseAdvice(leaseMs: number | null, p99: number | null): string | null {
  if (leaseMs === null || p99 === null) return null;
  if (p99 > leaseMs) {
    return (
      `1 of 100 runs takes longer than ${formatMs(p99)} and lives on renewals of a lease of ${formatMs(leaseMs)}: ` +
      `a worker cut off for that long loses them. A lease of ${formatMs(roundUp(1.5 * p99))} would outlast most.`
    );
  }
  if (leaseMs > longMs && leaseMs > tooMany * p99) {
    return (
      `99 of 100 runs are over in ${formatMs(p99)}, but the jobs of a worker that died wait for ${formatMs(leaseMs)}. ` +
      `A lease of ${formatMs(Math.max(30_000, roundUp(3 * p99)))} would do.`
    );
  }
  return null;
}

/** To the next half minute: nobody writes a lease of 47.3 s. */
function roundUp(ms: number): number {
  return Math.ceil(ms / 30_000) * 30_000;
}
