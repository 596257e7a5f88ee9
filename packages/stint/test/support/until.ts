import { setTimeout as sleep } from "node:timers/promises";

/** Wait until `read` has returned the same for so long: what was under way is over. */
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

/** Wait until `condition` gives something truthy, and return that. */
export async function until<T>(
  condition: () => T | Promise<T>,
  { deadlineMs = 60_000, message = condition.toString() }: { deadlineMs?: number; message?: string } = {},
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
      // A condition may throw while the thing it asks is not there yet; only the last time counts.
      error = caught;
    }
    if (Date.now() >= end) break;
    // Soon again at first, and less often the longer it takes: a condition that queries the database costs a core something.
    await sleep(Math.min(100, 5 + (Date.now() - start) / 20));
  }
  const seen =
    error === undefined
      ? `it was last ${JSON.stringify(last) ?? String(last)}`
      : `it last threw: ${(error as Error).message}`;
  throw new Error(`Waited ${deadlineMs} ms in vain until ${message}; ${seen}`, { cause: error });
}
