import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import { nowMs } from "./clock.ts";

const lookEveryMs = 10;
const askAnywayEveryMs = 500;

export type Drained = {
  readonly atMs: number;
  readonly runs: number;
  /** When a tenth of the handlers had started. */
  readonly tenthMs: number;
};

/**
 * Wait until the store has no pending job. Returns the time and the number of handler runs. The store is polled often only once enough
 * handlers have started, because polling costs the store time.
 */
export async function untilDrained(
  keeper: Actor,
  workers: readonly Actor[],
  expected: number,
): Promise<Drained> {
  let askedMs = nowMs();
  let before = { runs: 0, atMs: askedMs };
  let tenthMs: number | undefined;
  for (;;) {
    const counts = await Promise.all(workers.map(async (worker) => (await worker.call("progress")).count));
    const runs = counts.reduce((sum, count) => sum + count, 0);
    const now = { runs, atMs: nowMs() };
    if (runs >= expected / 10) tenthMs ??= between(before, now, expected / 10);
    before = now;
    if (runs >= expected || nowMs() - askedMs > askAnywayEveryMs) {
      askedMs = nowMs();
      if (!(await keeper.call("pending"))) return { atMs: nowMs(), runs, tenthMs: tenthMs ?? nowMs() };
    }
    await sleep(runs >= expected ? 2 : lookEveryMs);
  }
}

type Look = { readonly runs: number; readonly atMs: number };

/** The time of run number `mark`, interpolated evenly between two polls. */
function between(before: Look, after: Look, mark: number): number {
  const share = after.runs === before.runs ? 1 : (mark - before.runs) / (after.runs - before.runs);
  return before.atMs + share * (after.atMs - before.atMs);
}
