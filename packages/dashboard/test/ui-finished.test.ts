import { expect, test } from "vitest";
import { topOf } from "../ui/components/chart-scale.ts";
import { finishedMinutes, finishedSteps } from "../ui/finished.ts";

const at = (second: number) => new Date(second * 1_000).toISOString();

test("a step is drawn once it has ended and its counts have arrived", () => {
  const points = [0, 10, 20, 30].map((second) => ({ at: at(second) }));
  const series = { points, stepMs: 10_000 };
  expect(finishedSteps({ ...series, completeUntil: at(30) })).toEqual([true, true, true, false]);
  expect(finishedSteps({ ...series, completeUntil: at(20) })).toEqual([true, true, false, false]);
  expect(finishedSteps(series)).toEqual([true, true, true, false]);
});

test("the current minute is not part of a sparkline", () => {
  const minutes = [0, 60, 120].map((second) => ({ at: at(second) }));
  expect(finishedMinutes(minutes, at(150))).toEqual(minutes.slice(0, 2));
  expect(finishedMinutes(minutes, at(180))).toEqual(minutes);
  expect(finishedMinutes([], at(0))).toEqual([]);
});

test("waits of milliseconds are not flat at zero below a target of minutes", () => {
  expect(topOf(200, 300_000)).toBe(200);
  // The target is on the scale while the figures are near it, and if there are none.
  expect(topOf(100_000, 300_000)).toBe(300_000);
  expect(topOf(400_000, 300_000)).toBe(400_000);
  expect(topOf(null, 300_000)).toBe(300_000);
  expect(topOf(0)).toBe(1);
});
