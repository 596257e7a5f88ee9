import * as fc from "fast-check";
import { expect, test } from "vitest";
import { toMs } from "./duration.ts";
import { formatCount, formatMs, plural } from "./figures.ts";

test.each([
  [0, "0 ms"],
  [250, "250 ms"],
  [999.6, "1 s"],
  [1_500, "1.5 s"],
  [6_300, "6.3 s"],
  [59_990, "1 min"],
  [124_000, "2 min 4 s"],
  [3_600_000, "1 h"],
  [3_661_000, "1 h 1 min"],
  [100_800_000, "1 d 4 h"],
  [-1_500, "-1.5 s"],
  [Number.POSITIVE_INFINITY, "forever"],
])("%d ms is written as %s", (ms, text) => {
  expect(formatMs(ms)).toBe(text);
});

test("every whole number of seconds below an hour reads back as what was written", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 3_599 }), (seconds) => {
      expect(toMs(formatMs(seconds * 1_000), "delay")).toBe(seconds * 1_000);
    }),
  );
});

test("counts have separators, and a plural where there is not one", () => {
  expect([0, 999, 12_345].map(formatCount)).toEqual(["0", "999", "12,345"]);
  expect([plural(1, "job"), plural(12_345, "job"), plural(0, "entry", "entries")]).toEqual([
    "1 job",
    "12,345 jobs",
    "0 entries",
  ]);
});
