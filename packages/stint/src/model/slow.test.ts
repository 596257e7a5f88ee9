import { expect, test } from "vitest";
import { slowness } from "./slow.ts";

const job = { runningMs: 0, p95Ms: null, timeoutMs: 3_600_000 };

test.each<[string, Partial<Parameters<typeof slowness>[0]>, ReturnType<typeof slowness>]>([
  ["it has just begun", {}, null],
  ["the baseline is unknown", { runningMs: 100_000 }, null],
  ["within three times the baseline", { runningMs: 6_000, p95Ms: 2_000 }, null],
  ["beyond that", { runningMs: 6_001, p95Ms: 2_000 }, "beyond-normal"],
  ["beyond that, but within a second", { runningMs: 900, p95Ms: 2 }, null],
  ["a second, of a kind that takes milliseconds", { runningMs: 1_000, p95Ms: 2 }, "beyond-normal"],
  ["70 % of its time", { runningMs: 7_000, timeoutMs: 10_000 }, "near-timeout"],
  ["not quite 70 %", { runningMs: 6_999, timeoutMs: 10_000 }, null],
  ["no timeout is known", { runningMs: 6_999, timeoutMs: null }, null],
  ["its lease is renewed", { runningMs: 500, leaseMs: 30_000, leaseLeftMs: 15_000 }, null],
  ["its lease is not renewed", { runningMs: 500, leaseMs: 30_000, leaseLeftMs: 8_999 }, "near-lease"],
  ["its lease ran out, and its length is unknown", { leaseMs: null, leaseLeftMs: -1 }, "near-lease"],
])("%s", (_, more, expected) => {
  expect(slowness({ ...job, ...more })).toBe(expected);
});
