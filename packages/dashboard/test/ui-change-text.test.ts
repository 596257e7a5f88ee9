import { expect, test } from "vitest";
import { changeTexts } from "../ui/screens/controls/change-text.ts";

test("a change is shown in words, and only the parts that differ", () => {
  const before = { rate: { limit: 60, perMs: 60_000, burst: 10 }, concurrency: { max: 6, min: 1 } };
  const after = { rate: { limit: 60, perMs: 1_000, burst: 10 }, concurrency: { max: 4, min: 1 } };
  expect(changeTexts("settings", before, after)).toEqual(["rate per 1 min → 1 s", "concurrency max 6 → 4"]);
  expect(changeTexts("settings", null, { rate: { limit: 1_000, perMs: 60_000 } })).toEqual([
    "none → rate (limit 1,000, per 1 min)",
  ]);
  expect(changeTexts("targetAgeMs", 30_000, null)).toEqual(["target age 30 s → none"]);
  expect(changeTexts("max", null, 5)).toEqual(["max none → 5"]);
  expect(changeTexts("until", null, "2030-01-31T12:00:00.123456+00:00")[0]).toMatch(
    /^until none → 31 Jan 2030, /,
  );
  expect(changeTexts("fair", { weights: { acmeMs: 1 } }, { weights: { acmeMs: 2 } })).toEqual([
    "fair weights acmeMs 1 → 2",
  ]);
  expect(changeTexts("until", null, null)).toEqual([]);
});
