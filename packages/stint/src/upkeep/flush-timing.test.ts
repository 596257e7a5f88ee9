import * as fc from "fast-check";
import { expect, test } from "vitest";
import { FlushTiming } from "./flush-timing.ts";

/** The steps of the database in which a worker flushes, if its timers are late by `lates` and the database's clock is `aheadMs` ahead. */
function stepsOf(random: number, aheadMs: number, lates: readonly number[]): number[] {
  const timing = new FlushTiming(random);
  let now = 5_000;
  timing.setBy(now + aheadMs, now);
  return lates.map((late) => {
    now += timing.restMs(now) + late;
    timing.setBy(now + aheadMs, now);
    return Math.floor((now + aheadMs) / 10_000);
  });
}

test("a worker flushes once in each step of the database, however late its timers are", () => {
  const late = fc.array(fc.integer({ min: -5, max: 900 }), { minLength: 2, maxLength: 50 });
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.integer({ min: 0, max: 1e12 }),
      late,
      (random, ahead, lates) => {
        const flushed = stepsOf(random, ahead, lates);
        expect(flushed).toEqual(flushed.map((_, n) => (flushed[0] ?? 0) + n));
      },
    ),
  );
});

test("a worker that never flushed rests one step, without the database's clock", () => {
  const timing = new FlushTiming(0.5);
  const first = timing.restMs(123_456);
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(11_000);
  expect(timing.restMs(123_456 + first)).toBe(10_000);
});
