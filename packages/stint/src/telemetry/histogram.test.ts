import { expect, test } from "vitest";
import { bounds, Histogram, percentile, percentiles } from "./histogram.ts";

function of(...values: number[]): Histogram {
  const histogram = new Histogram();
  for (const ms of values) histogram.add(ms);
  return histogram;
}

test("a value falls into the bucket of the first bound it does not exceed", () => {
  const { counts, sumMs } = of(0, 1, 1.01, 2.5, 3_600_000, 3_600_001);

  expect(counts.slice(0, 2)).toEqual([2, 2]);
  expect(counts.slice(-2)).toEqual([1, 1]);
  expect(counts).toHaveLength(bounds.length + 1);
  expect(sumMs).toBeCloseTo(7_200_005.51);
});

test("a percentile lies in the bucket of its value", () => {
  const values = Array.from({ length: 1_000 }, (_, n) => n + 1);
  const { p50, p95, p99 } = percentiles(of(...values).counts);

  // Buckets end at 500 and at 1,000 ms; within them the values are spread evenly, as is supposed.
  expect(p50).toBeCloseTo(500, 0);
  expect(p95).toBeCloseTo(950, 0);
  expect(p99).toBeCloseTo(990, 0);
});

test("an empty histogram has no percentile; beyond the last bound it is that bound", () => {
  expect(percentiles(new Histogram().counts)).toEqual({ p50: null, p95: null, p99: null });
  expect(percentile(of(86_400_000).counts, 0.5)).toBe(3_600_000);
});
