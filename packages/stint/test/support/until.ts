import { setTimeout as sleep } from "node:timers/promises";

/** Waits until `read` has returned the same value for `forMs`: pending work is done. */
export async function untilSteady(read: () => unknown, forMs: number): Promise<void> {
  let last = read();
  let since = performance.now();
  await until(
    () => {
      const now = read();
      if (now !== last) [last, since] = [now, performance.now()];
      return performance.now() - since >= forMs;
    },
    { message: `nothing changes for ${forMs} ms` },
  );
}

/** Waits until `condition` returns a truthy value, and returns that value. */
export async function until<T>(
  condition: () => T | Promise<T>,
  {
    deadlineMs = 60_000,
    pauseMs = 250,
    message = condition.toString(),
  }: {
    deadlineMs?: number;
    /** The longest pause between two reads: more for a condition that is expensive to read. */
    pauseMs?: number;
    message?: string;
  } = {},
): Promise<T> {
  const start = Date.now();
  const end = start + deadlineMs;
  let last: T | undefined;
  let error: unknown;
  for (;;) {
    try {
      error = undefined;
      last = await condition();
      if (last) return last;
    } catch (caught) {
      // A condition may throw while its object does not exist yet; only the last error counts.
      error = caught;
    }
    if (Date.now() >= end) break;
    // Short pauses at first, longer ones later: a condition that queries the database uses a core.
    await sleep(Math.min(pauseMs, 5 + (Date.now() - start) / 20));
  }
  const seen =
    error === undefined
      ? `it was last ${JSON.stringify(last) ?? String(last)}`
      : `it last threw: ${(error as Error).message}`;
  throw new Error(`Waited ${deadlineMs} ms without success until ${message}; ${seen}`, { cause: error });
}
