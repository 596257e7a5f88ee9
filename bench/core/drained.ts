import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import { nowMs } from "./clock.ts";

const lookEveryMs = 10;
const askAnywayEveryMs = 500;

/**
 * Wait until the store says that nothing is pending, and answer when that was and how many handlers ran. The store is asked often only
 * from when enough handlers have started: asking costs it something too.
 */
export async function untilDrained(
  keeper: Actor,
  workers: readonly Actor[],
  expected: number,
): Promise<{ atMs: number; runs: number }> {
  let askedMs = nowMs();
  for (;;) {
    const counts = await Promise.all(workers.map(async (worker) => (await worker.call("progress")).count));
    const runs = counts.reduce((sum, count) => sum + count, 0);
    if (runs >= expected || nowMs() - askedMs > askAnywayEveryMs) {
      askedMs = nowMs();
      if (!(await keeper.call("pending"))) return { atMs: nowMs(), runs };
    }
    await sleep(runs >= expected ? 2 : lookEveryMs);
  }
}
