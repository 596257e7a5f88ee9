import { expect, test } from "vitest";
import { bridged, smoothed } from "../ui/screens/queue/smooth.ts";

test("a count that arrives a step late does not look like a stop and a burst", () => {
  expect(smoothed([20, 20, 20, 0, 40, 20, 20])).toEqual([20, 20, 20, 40 / 3, 20, 20, 80 / 3]);
  expect(Math.min(...smoothed([20, 20, 20, 0, 40, 20]))).toBeGreaterThan(0);
});

test("a queue that stopped is drawn as stopped", () => {
  expect(smoothed([30, 30, 0, 0, 0]).at(-1)).toBe(0);
  expect(smoothed([])).toEqual([]);
});

test("one missing sample is bridged, a real gap is not", () => {
  expect(bridged([4, null, 6])).toEqual([4, 4, 6]);
  expect(bridged([4, null, null, 6])).toEqual([4, null, null, 6]);
  expect(bridged([null, 4, null])).toEqual([null, 4, null]);
  expect(bridged([0, null, 0])).toEqual([0, 0, 0]);
});
