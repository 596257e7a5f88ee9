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

test("more arrivals breach sooner, but never sooner than without claims", () => {
  const at = (arrived: number): number => breachInMs({ ...calm, claimed: 5, ended: 5, arrived }) ?? Infinity;
  const soon = [6, 10, 100, 10_000].map(at);

  expect(soon).toEqual(soon.toSorted((a, b) => b - a));
  expect(soon.at(-1)).toBeGreaterThanOrEqual(240_000);
});

/** Rates of a minute in which as many arrive as end, but for chance: from 0.5 to 20 a second. */
function* evenMinutes(): Generator<Pick<QueuePace, "arrived" | "claimed" | "ended">> {
  // A fixed sequence: a test must not fail once in a thousand runs.
  let seed = 1;
  const random = (): number => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
  for (const rate of [0.5, 2, 20])
    for (let minute = 0; minute < 200; minute++) {
      const count = (): number =>
        Array.from({ length: 600 }, () => (random() < rate / 10 ? 1 : 0)).reduce<number>((a, b) => a + b, 0);
      // More than ten a second: each tenth of a second has two.
      const per = (): number => (rate > 10 ? 2 * count() : count()) / 60;
      const ended = per();
      yield { arrived: per(), claimed: ended, ended };
    }
}

test("a healthy queue has no forecast, at any change of its rates", () => {
  for (const minute of evenMinutes())
    expect(breachInMs({ ...calm, ...minute, oldestReadyMs: 400 })).toBeNull();
});

test("a job that has just arrived, with no recent claims, makes no forecast", () => {
  expect(breachInMs({ ...calm, oldestReadyMs: 2_000 })).toBeNull();
  expect(breachInMs({ ...calm, oldestReadyMs: 10_000 })).toBe(290_000);
  // A short target is watched sooner.
  expect(breachInMs({ ...calm, oldestReadyMs: 200, targetMs: 1_000 })).toBe(800);
});

test("near equal rates the forecast is stable: five minutes must agree with the last", () => {
  const steady = { arrived: 10, ended: 9.9, seconds: 300 };
  for (const minute of evenMinutes()) expect(breachInMs({ ...calm, ...minute, steady })).toBeNull();
});

test("a queue that grows by less than a twentieth is stable and has no forecast", () => {
  const grown = (arrived: number): number | null =>
    breachInMs({ ...calm, arrived, claimed: 1_000, ended: 1_000 });
  expect(grown(1_000.1)).toBeNull();
  expect(grown(1_040)).toBeNull();
  expect(grown(1_100)).toBeCloseTo(240_000 / (100 / 1_100));
});

test("growth that both windows show is forecast at their mean", () => {
  const steady = { arrived: 10, ended: 8, seconds: 300 };
  expect(breachInMs({ ...calm, arrived: 10, claimed: 4, ended: 4, steady })).toBe(240_000 / 0.4);
  expect(breachInMs({ ...calm, arrived: 10, claimed: 10, ended: 10, steady })).toBeNull();
});

test("a minute without ended runs is no standstill if the last five kept up", () => {
  const long = { ...calm, arrived: 0.1, claimed: 0.1, ended: 0 };
  expect(breachInMs({ ...long, steady: { arrived: 0.1, ended: 0.1, seconds: 300 } })).toBeNull();
  expect(breachInMs({ ...long, steady: { arrived: 0.1, ended: 0, seconds: 300 } })).toBe(240_000);
});
