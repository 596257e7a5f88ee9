/** A lease that nobody renews must be found, or given back, before it ends; so an answer about it is not waited for to its end. */
const shortestMs = 1_000;

/** How long to wait for the answer to a claim that may give such leases. After half of a lease its jobs are not begun any more. */
export function claimDeadlineMs(leasesMs: readonly number[]): number {
  return clamp(Math.min(...leasesMs) / 2, 15_000);
}

/** How long to wait for the answer to a renewal or a release of such leases, so that another connection can still be tried. */
export function leaseDeadlineMs(leasesMs: readonly number[]): number {
  return clamp(Math.min(...leasesMs) / 3, 5_000);
}

function clamp(ms: number, longestMs: number): number {
  return Math.max(shortestMs, Math.min(ms, longestMs));
}
