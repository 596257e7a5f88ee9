import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Beat } from "./beat.ts";

/** In which of the database's steps a worker tells, if its timers are off by so much and its database is `aheadMs` ahead of it. */
function stepsOf(random: number, aheadMs: number, lates: readonly number[]): number[] {
  const beat = new Beat(random);
  let now = 5_000;
  beat.setBy(now + aheadMs, now);
  return lates.map((late) => {
    now += beat.restMs(now) + late;
    beat.setBy(now + aheadMs, now);
    return Math.floor((now + aheadMs) / 10_000);
  });
}

test("a worker tells once within each step of the database, wherever it began and however late its timers are", () => {
  const late = fc.array(fc.integer({ min: -5, max: 900 }), { minLength: 2, maxLength: 50 });
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.integer({ min: 0, max: 1e12 }),
      late,
      (random, ahead, lates) => {
        const told = stepsOf(random, ahead, lates);
        expect(told).toEqual(told.map((_, n) => (told[0] ?? 0) + n));
      },
    ),
  );
});

test("one that has told nothing rests as long, without the database's time", () => {
  const beat = new Beat(0.5);
  const first = beat.restMs(123_456);
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(11_000);
  expect(beat.restMs(123_456 + first)).toBe(10_000);
});
