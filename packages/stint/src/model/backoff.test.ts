import * as fc from "fast-check";
import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { exponential, nextDelayMs, resolveBackoff, steps, type Backoff } from "./backoff.ts";
import type { Failure } from "./failure.ts";

const failure: Failure = { class: "Error", message: "no" };
const highest = () => 1;

function delays(backoff: Backoff | undefined, count: number, random = highest): number[] {
  const resolved = resolveBackoff(backoff, "backoff");
  return Array.from({ length: count }, (_, index) => nextDelayMs(resolved, index + 1, failure, random));
}

test("by default delays double from 10 s up to 5 min", () => {
  expect(delays(undefined, 7)).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
});

test("full jitter draws from zero to the ceiling", () => {
  expect(delays(undefined, 2, () => 0)).toEqual([0, 0]);
  expect(delays(undefined, 2, () => 0.25)).toEqual([2_500, 5_000]);
});

test("without jitter delays are exact", () => {
  expect(delays(exponential({ base: "1s", factor: 3, cap: "20s", jitter: "none" }), 4, () => 0)).toEqual([
    1_000, 3_000, 9_000, 20_000,
  ]);
});

test("the last step repeats", () => {
  expect(delays(steps("30s", "5m", "30m"), 5)).toEqual([30_000, 300_000, 1_800_000, 1_800_000, 1_800_000]);
});

test("a function decides by attempt and error", () => {
  const seen: unknown[] = [];
  const backoff = (attempt: number, error: Failure) => {
    seen.push(error);
    return `${attempt}m`;
  };
  expect(delays(backoff, 2)).toEqual([60_000, 120_000]);
  expect(seen).toEqual([failure, failure]);
});

test.each([
  [
    "throws",
    () => {
      throw new Error("no");
    },
  ],
  ["returns NaN", () => Number.NaN],
  ["returns a negative number", () => -1],
  ["returns nothing", () => undefined],
  ["returns a promise", () => Promise.resolve(5)],
  ["returns nonsense", () => "soon"],
  ["returns a time far beyond any date", () => 1e300],
])("a function that %s is replaced by the default backoff", (_, backoff) => {
  expect(delays(backoff as Backoff, 2)).toEqual([10_000, 20_000]);
});

test("every attempt number gives a valid delay", () => {
  const backoff = fc.oneof(
    fc.record({
      base: fc.integer({ min: 0, max: 10_000 }),
      factor: fc.double({ min: 1, max: 1e6, noNaN: true }),
      cap: fc.integer({ min: 10_000, max: 1e12 }),
      jitter: fc.constantFrom("full" as const, "none" as const),
    }),
    fc.array(fc.nat(), { minLength: 1 }).map((list) => ({ steps: list })),
    fc.func(fc.oneof(fc.double(), fc.string())),
  );
  const attempt = fc.oneof(fc.integer({ min: 1, max: 1_000_000 }), fc.double());
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(backoff, attempt, random, (input, n, drawn) => {
      const ms = nextDelayMs(resolveBackoff(input, "backoff"), n, failure, () => drawn);
      expect(ms).toSatisfy((value: number) => Number.isSafeInteger(value) && value >= 0);
      expect(ms).toBeLessThanOrEqual("cap" in input ? input.cap : Number.MAX_SAFE_INTEGER);
    }),
  );
});

test.each([
  [{ base: "x", factor: 2, cap: "5m", jitter: "full" }, "backoff.base: must be a duration"],
  [{ factor: 0.5 }, "backoff.factor: must be a number of at least 1, got 0.5"],
  [{ factor: Number.NaN }, "backoff.factor: must be a number of at least 1, got NaN"],
  [{ base: "10m", cap: "5m" }, 'backoff.cap: must be at least base ("10m"), got "5m"'],
  [{ jitter: "some" }, 'backoff.jitter: must be "full" or "none"'],
  [{ factr: 2 }, 'backoff.factr: is not an option; did you mean "factor"?'],
  [{ steps: [] }, "backoff.steps: must be a list of durations, got []"],
  [{ steps: "5m" }, "backoff.steps: must be a list of durations"],
  [{ steps: ["5m", -1] }, "backoff.steps[1]: must be a duration"],
  ["5m", "backoff: must be made by exponential(…) or steps(…), or be a function"],
  [null, "backoff: must be made by"],
  [["5m"], "backoff: must be made by"],
])("%j is refused before any job can depend on it", (input, message) => {
  expect(() => resolveBackoff(input as Backoff, "backoff")).toThrow(InvalidOptionError);
  expect(() => resolveBackoff(input as Backoff, "backoff")).toThrow(message);
});
