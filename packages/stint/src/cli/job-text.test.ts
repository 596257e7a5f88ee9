import { expect, test } from "vitest";
import { age } from "./job-text.ts";

test("ages read like spoken durations, past and future", () => {
  const now = Date.UTC(2027, 0, 1);

  expect(age(new Date(now - 192_000), now)).toBe("3 min 12 s ago");
  expect(age(new Date(now + 3_600_000), now)).toBe("in 1 h");
  expect(age(null, now)).toBe("");
});
