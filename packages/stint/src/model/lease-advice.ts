import { formatMs } from "./figures.ts";

/** A lease of this length is noticeable: jobs of a dead worker wait this long. */
const longMs = 60_000;
/** A lease longer than this multiple of the 99th percentile is of no use. */
const tooMany = 20;

/**
 * Advice on a kind's lease, based on its run times; null if it fits.
 *
 * @param p99 The 99th percentile of its runs in milliseconds; null while too few have ended.
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

/** Rounded up to half a minute, because a lease of 47.3 s is unusual. */
function roundUp(ms: number): number {
  return Math.ceil(ms / 30_000) * 30_000;
}
