/** How a queue stands, and how it goes: rates are per second. */
export type QueuePace = {
  /** How long the oldest ready job has been waiting; null when none waits. */
  readonly oldestReadyMs: number | null;
  readonly ready: number;
  readonly arrived: number;
  readonly claimed: number;
  readonly ended: number;
  readonly targetMs: number;
};

/**
 * When the oldest ready job will have waited for longer than it should, if things go on as they do: 0 if it has, null if
 * it will not.
 *
 * - Nothing is claimed: it grows older by a second each second.
 * - More arrive than end: the line grows by the difference, and whoever joins it waits for all before. The oldest grows older by
 *   the share of each second that was not worked off.
 * - As many end as arrive, or more: the line holds or becomes shorter, and so does the wait.
 */
export function breachInMs(pace: QueuePace): number | null {
  const { oldestReadyMs, ready, arrived, claimed, ended, targetMs } = pace;
  if (oldestReadyMs === null || ready <= 0) return null;
  if (oldestReadyMs >= targetMs) return 0;
  const leftMs = targetMs - oldestReadyMs;
  const leaving = claimed === 0 ? 0 : ended;
  if (leaving === 0) return leftMs;
  if (arrived <= leaving) return null;
  return leftMs / (1 - leaving / arrived);
}
