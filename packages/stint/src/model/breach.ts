/** What went through a queue in a window of time. Rates are per second. */
export type Flow = { readonly arrived: number; readonly ended: number; readonly seconds: number };

/** How a queue stands, and how it goes: rates are per second. */
export type QueuePace = {
  /** How long the oldest ready job has been waiting; null when none waits. */
  readonly oldestReadyMs: number | null;
  readonly ready: number;
  readonly arrived: number;
  readonly claimed: number;
  readonly ended: number;
  readonly targetMs: number;
  /** The window the rates were measured over. */
  readonly seconds?: number;
  /** The same flow over a longer window. A forecast needs both windows to agree that the queue grows. */
  readonly steady?: Flow;
};

/** A queue that grows by less than this share of its arrivals is stable. */
const deadBand = 0.05;
/** Two counts of independent events differ by up to this many standard deviations by chance. */
const chance = 2;
/** A wait this short, or this share of the target, is normal: it says nothing about the trend. */
const briefMs = 10_000;
const briefShare = 0.1;

/**
 * The time until the oldest ready job passes its target at the present pace: 0 if it has passed, null if the queue is stable.
 *
 * - Nothing is claimed: the oldest job grows older by a second each second.
 * - More jobs arrive than end: the line grows by the difference. The oldest job ages by the share of each second that was not
 *   worked off.
 * - As many end as arrive, within the dead band and what chance explains: stable. Without the band, a queue whose rates are equal
 *   would flicker between minutes, days and none.
 * - The oldest job has hardly waited: stable. A queue that is served always has a job that has just arrived.
 */
export function breachInMs(pace: QueuePace): number | null {
  const { oldestReadyMs, ready, arrived, claimed, ended, targetMs, seconds = 60, steady } = pace;
  if (oldestReadyMs === null || ready <= 0) return null;
  if (oldestReadyMs >= targetMs) return 0;
  if (oldestReadyMs < Math.min(briefMs, briefShare * targetMs)) return null;
  const leftMs = targetMs - oldestReadyMs;
  if (claimed === 0) return leftMs;
  const shares = [{ arrived, ended, seconds }, ...(steady === undefined ? [] : [steady])].map(growth);
  if (shares.includes(0)) return null;
  return leftMs / (shares.reduce((sum, share) => sum + share, 0) / shares.length);
}

/** The share of arrivals by which a queue grows; 0 when it does not, or when chance may explain it. */
function growth({ arrived, ended, seconds }: Flow): number {
  // Nothing ended: runs may be longer than the window, which only the longer window can distinguish from a standstill.
  if (ended === 0) return 1;
  const more = arrived - ended;
  const noise = chance * Math.sqrt((arrived + ended) / seconds);
  return more <= Math.max(deadBand * arrived, noise) ? 0 : more / arrived;
}
