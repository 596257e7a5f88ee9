import { expect, test } from "vitest";
import { SchemaVersionError } from "../errors.ts";
import { Checks, type Checked } from "./checks.ts";

function worker(given: Partial<Checked> = {}): Checked {
  return { state: "running", overdueMs: 0, sinceLastLookMs: 5, check: async () => undefined, ...given };
}

test("live while the loops of every worker run", () => {
  expect(new Checks([worker(), worker({ overdueMs: 30_000 })]).live()).toBe("ok");
  expect(new Checks([worker(), worker({ overdueMs: 120_000 })]).live()).toBe("loops are late");
});

test("started once every worker received a reply of the database", () => {
  expect(new Checks([worker({ state: "new", sinceLastLookMs: undefined })]).started()).toBe("not started");
  expect(new Checks([worker(), worker({ state: "starting" })]).started()).toBe("not started");
  expect(new Checks([worker({ sinceLastLookMs: undefined })]).started()).toBe("not started");
  expect(new Checks([worker(), worker({ state: "stopping" })]).started()).toBe("ok");
});

test.each([
  ["ok", [worker(), worker()]],
  ["not started", [worker(), worker({ state: "starting" })]],
  ["draining", [worker({ state: "starting" }), worker({ state: "stopping" })]],
  ["draining", [worker({ state: "stopped" })]],
  ["database", [worker({ check: async () => await Promise.reject(new Error("gone")) })]],
  ["schema", [worker({ check: async () => await Promise.reject(new SchemaVersionError("s", 1, 2, "Go.")) })]],
] as const)("ready: %s", async (health, workers) => {
  expect(await new Checks(workers).ready()).toBe(health);
});

test("concurrent requests check the database once", async () => {
  let asked = 0;
  const checks = new Checks([worker({ check: async () => void (asked += 1) })]);

  expect(await Promise.all([checks.ready(), checks.ready(), checks.ready()])).toEqual(["ok", "ok", "ok"]);
  expect(asked).toBe(1);
});
