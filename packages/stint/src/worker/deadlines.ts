/** The shortest deadline. A statement about a lease has to end well before the lease does, so that it can be repeated. */
const shortestMs = 1_000;

/** How long a claim that gives such leases may take. After half of a lease its jobs no longer begin. */
export function claimDeadlineMs(leasesMs: readonly number[]): number {
  return clamp(Math.min(...leasesMs) / 2, 15_000);
}

/** How long a renewal or a release of such leases may take, so that there is time to try another connection. */
export function leaseDeadlineMs(leasesMs: readonly number[]): number {
  return clamp(Math.min(...leasesMs) / 3, 5_000);
}

function clamp(ms: number, longestMs: number): number {
  return Math.max(shortestMs, Math.min(ms, longestMs));
}
