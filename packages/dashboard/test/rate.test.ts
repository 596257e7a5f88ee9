/** Rate limits per visitor. */
import { expect, test } from "vitest";
import { Rate } from "#dashboard/rate.js";

test("the bucket refills at its rate and never beyond its burst", () => {
  let now = 0;
  const rate = new Rate({ perSecond: 2, burst: 4 }, () => now);
  const takes = (count: number): number[] => Array.from({ length: count }, () => rate.take("ada"));

  expect(takes(5)).toEqual([0, 0, 0, 0, 1]);
  now += 1_000;
  expect(takes(3)).toEqual([0, 0, 1]);
  now += 3_600_000;
  expect(takes(5)).toEqual([0, 0, 0, 0, 1]);
});
