import * as fc from "fast-check";
import { expect, test } from "vitest";
import { timestampMs } from "./timestamp.ts";

test("a timestamp in UTC is read as Date.parse reads it", () => {
  const times = fc.date({ min: new Date("1970-01-01"), max: new Date("9999-12-31"), noInvalidDate: true });
  fc.assert(
    fc.property(times, fc.integer({ min: 0, max: 6 }), (time, digits) => {
      const [day, rest = ""] = time.toISOString().replace("Z", "").split("T");
      const fraction = digits === 0 ? "" : `.${rest.slice(9).padEnd(6, "7").slice(0, digits)}`;
      const text = `${day} ${rest.slice(0, 8)}${fraction}+00`;
      expect({ text, ms: timestampMs(text) }).toEqual({ text, ms: Date.parse(text) });
    }),
  );
});

test.each([
  ["2026-11-19 20:32:03.734+05:30", Date.parse("2026-11-19T15:02:03.734Z")],
  ["2026-11-19T20:32:03.734+00:00", Date.parse("2026-11-19T20:32:03.734Z")],
  ["infinity", Number.NaN],
  ["", Number.NaN],
])("another form is left to Date.parse: %j", (text, ms) => {
  expect(timestampMs(text)).toBe(ms);
});
