/** How the dashboard writes figures, and which part of a series it draws. */
import type { Series } from "stint/inspect";
import { expect, test } from "vitest";
import type { Wire } from "../ui/api.ts";
import { bytes, duration, plural, rate, roundDuration, share, short } from "../ui/format.ts";
import { trimEmpty } from "../ui/screens/queue/trim-empty.ts";
import { standingOf, standingWords } from "../ui/standing.ts";
import { compact, oneOf, parseSearch, printSearch } from "../ui/url.ts";

test.each([
  [null, "–"],
  [-5, "0 ms"],
  [999.4, "999 ms"],
  [999.6, "1 s"],
  [9_949, "9.9 s"],
  [59_499, "59.5 s"],
  [59_950, "1 min"],
  [3_599_600, "1 h"],
  [86_399_600, "1 d"],
  [442_800_000, "5 d 3 h"],
])("a duration of %s ms is %s", (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test.each([
  [0, "0"],
  [500, "500 ms"],
  [300_000, "5 min"],
  [5_400_000, "1.5 h"],
  [86_400_000, "1 d"],
  [45_000, "45 s"],
  [77_000, "1 min 17 s"],
])("a chosen duration of %s ms is %s", (ms, text) => {
  expect(roundDuration(ms)).toBe(text);
});

test("counts, rates, shares and sizes", () => {
  expect([0, 9_999, 10_000, 184_211, 999_499, 999_500, 4_120_000, 2e9].map(short)).toEqual([
    "0",
    "9,999",
    "10k",
    "184k",
    "999k",
    "1M",
    "4.1M",
    "2G",
  ]);
  expect([0, 0.001, 0.05, 0.9, 1, 9.96, 212, 12_300].map(rate)).toEqual([
    "0",
    "<0.1/min",
    "3/min",
    "54/min",
    "1/s",
    "10/s",
    "212/s",
    "12.3k/s",
  ]);
  expect([null, 0, 0.004, 0.271, 1].map(share)).toEqual(["–", "0 %", "0.4 %", "27 %", "100 %"]);
  expect([null, 184 * 1_048_576, 1_310 * 1_048_576].map(bytes)).toEqual(["–", "184 MB", "1.3 GB"]);
  expect([plural(1, "job"), plural(2, "job"), plural(1_000, "job")]).toEqual([
    "1 job",
    "2 jobs",
    "1,000 jobs",
  ]);
});

test("a queue is late past its target, soon within 15 minutes, else ok", () => {
  const of = (oldestReadyMs: number | null, breachInMs: number | null) => ({
    oldestReadyMs,
    breachInMs,
    targetMs: 300_000,
  });
  expect(standingOf(of(300_001, null))).toBe("late");
  expect(standingOf(of(10, 0))).toBe("late");
  expect(standingOf(of(10, 900_000))).toBe("soon");
  expect(standingOf(of(10, 900_001))).toBe("ok");
  expect(standingOf(of(null, null))).toBe("ok");
  expect(standingWords(of(360_000, 0)).detail).toBe("1 min past its target");
});

test("the URL is read as words, and anything else is left out", () => {
  expect(parseSearch("?state=dead,ready&queue=a%2Fb&n=1")).toEqual({
    state: "dead,ready",
    queue: "a/b",
    n: "1",
  });
  expect(printSearch({ state: ["dead", "ready"], queue: "a/b", none: "", gone: undefined })).toBe(
    "?state=dead,ready&queue=a%2Fb",
  );
  expect(compact({ a: { b: 1 }, c: "d" })).toEqual({ c: "d" });
  expect(oneOf(["1h", "6h"], "1h")("9y")).toBe("1h");
});

test("a new series starts with its first figure, an old one is complete", () => {
  const none = { p50: null, p95: null, p99: null };
  const quiet = {
    ...depthless,
    claimed: 0,
    succeeded: 0,
    failed: 0,
    retried: 0,
    dead: 0,
    cancelled: 0,
    rescued: 0,
    wait: none,
    run: none,
  };
  const series = (figures: number): Wire<Series> => ({
    queue: "mail",
    kind: null,
    range: "1h",
    stepMs: 60_000,
    completeUntil: new Date(60 * 60_000).toISOString(),
    points: Array.from({ length: 60 }, (_, index) =>
      Object.assign(
        { at: new Date(index * 60_000).toISOString(), arrived: index >= 60 - figures ? 1 : 0 },
        quiet,
      ),
    ),
  });
  const shown = (figures: number) => trimEmpty(series(figures)).series?.points.length;
  expect([shown(60), shown(59), shown(30), shown(3), shown(0)]).toEqual([60, 60, 31, 12, 60]);
  expect(trimEmpty(series(3)).detail).toMatch(/^figures begin at .+, one point is 1 min$/);
});

const depthless = { ready: null, running: null, oldestReadyMs: null };
