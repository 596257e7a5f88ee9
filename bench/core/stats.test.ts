import { expect, test } from "vitest";
import { median, percentile } from "./stats.ts";

test("the median of an even number of values lies between the two in the middle", () => {
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(median([9, 1, 5])).toBe(5);
});

test("a percentile is one of the values, and the last one is the largest", () => {
  const values = Array.from({ length: 100 }, (_, n) => 100 - n);
  expect(percentile(values, 0.5)).toBe(51);
  expect(percentile(values, 0.99)).toBe(100);
  expect(percentile(values, 1)).toBe(100);
});

test("an empty list has no median and no percentile", () => {
  expect(median([])).toBeNaN();
  expect(percentile([], 0.5)).toBeNaN();
});
