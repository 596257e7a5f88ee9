import * as fc from "fast-check";
import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { toMs } from "./duration.ts";

test.each([
  ["500ms", 500],
  ["30s", 30_000],
  ["5m", 300_000],
  ["2h", 7_200_000],
  ["1d", 86_400_000],
  ["1h30m", 5_400_000],
  ["1h 30m", 5_400_000],
  ["1.5s", 1_500],
  ["2 min 4 s", 124_000],
  ["1 h 30 min", 5_400_000],
  ["5min", 300_000],
  ["250 ms", 250],
  ["0s", 0],
  [0, 0],
  [250, 250],
  [1.6, 2],
])("%s is read as %d ms", (value, ms) => {
  expect(toMs(value, "delay")).toBe(ms);
});

test.each([
  "",
  " ",
  "5",
  "-5s",
  "5 minutes",
  "5M",
  "s",
  "1e3s",
  "30m1h",
  "5m5m",
  "Infinity",
  `${"9".repeat(400)}s`,
  -1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
])("%j is refused, and the message names it", (value) => {
  expect(() => toMs(value, "worker.lease")).toThrow(InvalidOptionError);
  expect(() => toMs(value, "worker.lease")).toThrow(/^worker\.lease: must be a duration such as/);
});

test.each([null, undefined, {}, [], 5n, true])(
  "a value of another type (%#) is refused, not coerced",
  (value) => {
    expect(() => toMs(value as never, "delay")).toThrow(InvalidOptionError);
  },
);

test("limits are inclusive and named in the message", () => {
  expect(toMs("1s", "lease", { min: 1_000, max: 2_000 })).toBe(1_000);
  expect(toMs("2s", "lease", { min: 1_000, max: 2_000 })).toBe(2_000);
  expect(() => toMs("999ms", "lease", { min: 1_000 })).toThrow(`lease: must be at least 1 s, got "999ms"`);
  expect(() => toMs(2_001, "lease", { max: 2_000 })).toThrow("lease: must be at most 2 s, got 2001");
});

test("a duration so long that no date could hold it is refused", () => {
  expect(() => toMs("999999999d", "delay")).toThrow("at most 36,500 d");
});

function msOrRefusal(text: string): unknown {
  try {
    return toMs(text, "delay");
  } catch (error) {
    return error;
  }
}

test("any text is either read as a non-negative integer or refused with a typed error", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9]{0,4}(\.[0-9])?(ms|s|m|h|d)?/)), (text) => {
      const result = msOrRefusal(text);
      expect(result).toSatisfy(
        (value) => value instanceof InvalidOptionError || (Number.isSafeInteger(value) && Number(value) >= 0),
      );
    }),
  );
});
