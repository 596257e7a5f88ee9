import { expect, test } from "vitest";
import { breachInMs, type QueuePace } from "./breach.ts";

const calm: QueuePace = {
  oldestReadyMs: 60_000,
  ready: 10,
  arrived: 0,
  claimed: 0,
  ended: 0,
  targetMs: 300_000,
};

test.each<[string, Partial<QueuePace>, number | null]>([
  ["nothing waits", { oldestReadyMs: null, ready: 0 }, null],
  ["it is as old as it may be", { oldestReadyMs: 300_000 }, 0],
  ["it is older, however fast they end", { oldestReadyMs: 400_000, claimed: 100, ended: 100 }, 0],
  ["nothing is claimed: a second each second", {}, 240_000],
  ["nothing is claimed, though attempts that had begun end", { ended: 5, arrived: 1 }, 240_000],
  ["twice as many arrive as end: half a second each second", { arrived: 10, claimed: 5, ended: 5 }, 480_000],
  ["four times as many", { arrived: 20, claimed: 5, ended: 5 }, 320_000],
  ["as many end as arrive", { arrived: 5, claimed: 5, ended: 5 }, null],
  ["it drains", { arrived: 1, claimed: 5, ended: 5 }, null],
  ["none arrive and some end", { claimed: 1, ended: 1 }, null],
  ["claims, but no ends yet", { claimed: 3, arrived: 3 }, 240_000],
])("%s", (_, pace, expected) => {
  expect(breachInMs({ ...calm, ...pace })).toBe(expected);
});

test("the more arrive, the sooner; never sooner than if nothing were claimed", () => {
  const at = (arrived: number): number => breachInMs({ ...calm, claimed: 5, ended: 5, arrived }) ?? Infinity;
  const soon = [6, 10, 100, 10_000].map(at);

  expect(soon).toEqual(soon.toSorted((a, b) => b - a));
  expect(soon.at(-1)).toBeGreaterThanOrEqual(240_000);
});
