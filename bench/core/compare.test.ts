import { expect, test } from "vitest";
import { compare, timesAsGood } from "./compare.ts";
import type { Row } from "./types.ts";

function row(system: string, median: number, more: Partial<Row> = {}): Row {
  const same = { scenario: "drain", variant: "1 process", config: "default", unit: "jobs/s" } as const;
  return { ...same, system, median, min: median, max: median, n: 1, ...more };
}

test("more jobs per second are better, and so are fewer milliseconds", () => {
  expect(timesAsGood(row("stint", 300), row("dbos", 100))).toBe(3);
  expect(timesAsGood(row("stint", 2, { unit: "ms" }), row("dbos", 6, { unit: "ms" }))).toBe(3);
});

test("Stint's default on Node is compared with the best peer of each store", () => {
  const against = compare([
    row("stint", 900, { config: "fast" }),
    row("stint", 800, { variant: "1 process, node 24" }),
    row("stint", 700),
    row("pg-boss", 100),
    row("graphile-worker", 500, { config: "fast" }),
    row("bullmq-redis", 600),
    row("ceiling", 1000),
  ]);
  expect(against.stint?.median).toBe(700);
  expect(against.bestPostgres?.system).toBe("graphile-worker");
  expect(against.bestRedis?.system).toBe("bullmq-redis");
  expect(against.ceiling?.median).toBe(1000);
});
