import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import { nowMs } from "./clock.ts";

const lookEveryMs = 10;

/**
 * For each of `marks`: when the worker's count of handler starts reached it, in ms of the shared clock. Starts between two polls are
 * interpolated evenly.
 */
export async function crossings(worker: Actor, marks: readonly number[]): Promise<number[]> {
  const times: number[] = [];
  let before = { count: 0, atMs: nowMs() };
  while (times.length < marks.length) {
    const { count } = await worker.call("progress");
    const atMs = nowMs();
    for (let mark = marks[times.length]; mark !== undefined && mark <= count; mark = marks[times.length]) {
      const share = count === before.count ? 1 : (mark - before.count) / (count - before.count);
      times.push(before.atMs + share * (atMs - before.atMs));
    }
    before = { count, atMs };
    await sleep(lookEveryMs);
  }
  return times;
}
