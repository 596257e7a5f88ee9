import { expect, test } from "vitest";
import { afterQuietHours, resolveQuietHours } from "./quiet-hours.ts";

const night = { from: "22:00", to: "07:00", zone: "Europe/Berlin" };

test.each([
  ["before the window", "2026-06-10T19:59:59Z", "2026-06-10T19:59:59Z"],
  ["at its begin", "2026-06-10T20:00:00Z", "2026-06-11T05:00:00Z"],
  ["before midnight", "2026-06-10T21:30:00Z", "2026-06-11T05:00:00Z"],
  ["after midnight", "2026-06-11T01:00:00Z", "2026-06-11T05:00:00Z"],
  ["just before its end", "2026-06-11T04:59:59Z", "2026-06-11T05:00:00Z"],
  ["at its end", "2026-06-11T05:00:00Z", "2026-06-11T05:00:00Z"],
  ["the night of the change forward", "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"],
  ["the night of the change back", "2026-10-24T22:00:00Z", "2026-10-25T06:00:00Z"],
])("%s a job starts when the quiet hours are over", (_, at, start) => {
  const hours = resolveQuietHours("test", night);
  expect(new Date(afterQuietHours(hours, Date.parse(at))).toISOString()).toBe(new Date(start).toISOString());
});

test.each([
  ["its end is skipped", { from: "01:00", to: "02:30" }, "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"],
  ["its end is repeated", { from: "01:00", to: "02:30" }, "2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z"],
  [
    "clocks come back into it",
    { from: "01:00", to: "02:30" },
    "2026-10-25T01:10:00Z",
    "2026-10-25T01:30:00Z",
  ],
  ["it lies within a day", { from: "12:00", to: "13:00" }, "2026-06-10T10:15:00Z", "2026-06-10T11:00:00Z"],
])("if %s, the end of the window is still after the moment", (_, times, at, start) => {
  const hours = resolveQuietHours("test", { ...times, zone: "Europe/Berlin" });
  expect(new Date(afterQuietHours(hours, Date.parse(at))).toISOString()).toBe(new Date(start).toISOString());
});

test("a start outside the window, computed for any moment, is outside the window", () => {
  const hours = resolveQuietHours("test", { from: "01:30", to: "03:15", zone: "Australia/Lord_Howe" });
  const begin = Date.parse("2026-04-03T00:00:00Z");
  for (let at = begin; at < begin + 4 * 86_400_000; at += 7 * 60_000) {
    const start = afterQuietHours(hours, at);
    expect(start).toBeGreaterThanOrEqual(at);
    expect(afterQuietHours(hours, start)).toBe(start);
  }
});
