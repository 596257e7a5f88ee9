import { expect, test } from "vitest";
import { heartbeat, registerWorker } from "#stint/sql/workers.js";
import type { WorkerView } from "#stint/inspect/types.js";
import { stateOf, versionsOf } from "#stint/cli/worker-text.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { jsonOf, stintOn } from "./support.ts";

async function withJobs(): Promise<Fresh> {
  const fresh = await freshSchema();
  const add = "select stint.enqueue($1, '{}', $2)";
  await fresh.sql(add, ["send-receipt", { queue: "mail" }]);
  await fresh.sql(add, ["send-receipt", { queue: "mail", priority: 5 }]);
  await fresh.sql(add, ["read-page", { queue: "ocr", delay: "1h" }]);
  return fresh;
}

test("stats prints totals and depths by queue, kind and priority", async () => {
  const { code, stdout } = await stintOn(await withJobs())("stats");

  expect(code).toBe(0);
  expect(stdout).toMatch(/^Now +2 ready, 0 running, 0 retrying, 1 scheduled, 0 parked, 0 dead$/m);
  expect(stdout).toMatch(/^BY QUEUE\nQUEUE +READY .*\nmail +2 +0 +0 +0 +0 +0\nocr +0 +0 +0 +1 +0 +0$/m);
  expect(stdout).toMatch(/^BY KIND\nKIND +QUEUE .*\nsend-receipt +mail +2 /m);
  // Only where there are several.
  expect(stdout).toMatch(/^BY PRIORITY\nQUEUE +PRIORITY .*\nmail +0 +1 .*\nmail +5 +1 .*$/m);
  expect(stdout).not.toMatch(/^ocr +0 +0 +0 +0 +1/m);
});

test("stats in JSON is one document", async () => {
  const ended = await stintOn(await withJobs())("stats", "--json");

  expect(jsonOf(ended)).toMatchObject({
    total: { ready: 2, scheduled: 1 },
    byQueue: [
      { queue: "mail", depth: { ready: 2 } },
      { queue: "ocr", depth: { scheduled: 1 } },
    ],
  });
});

test("stats prints waiting tenants, and how many jobs it searched", async () => {
  const fresh = await freshSchema();
  for (const tenant of ["acme", "acme", "bolt"])
    await fresh.sql("select stint.enqueue('send', '{}', $1)", [{ queue: "mail", tenant }]);
  const run = stintOn(fresh);

  expect((await run("stats")).stdout).toMatch(
    /^WAITING TENANTS, AMONG THE 3 READY\nTENANT +READY\nacme +2\nbolt +1$/m,
  );
  expect(jsonOf(await run("stats", "--json"))).toMatchObject({
    topTenants: [],
    waitingTenants: { tenants: [{ tenant: "acme", ready: 2 }, { tenant: "bolt" }], of: { count: 3 } },
  });
});

test("stats of an empty installation prints a sentence and no table", async () => {
  const { stdout } = await stintOn(await freshSchema())("stats");

  expect(stdout).toContain("0 ready");
  expect(stdout).not.toContain("BY QUEUE");
});

test("top without a terminal prints the queues once, in JSON as one document", async () => {
  const run = stintOn(await withJobs());

  const { code, stdout } = await run("top");

  expect(code).toBe(0);
  expect(stdout).not.toContain("\u001b");
  expect(stdout).toMatch(/^0 workers, 0\/0 slots busy, 2 ready, 0 running/);
  expect(stdout).toMatch(/^mail +\S+ +.* of .* +2 +0 /m);
  expect(jsonOf(await run("top", "--json"))).toMatchObject({ total: { ready: 2 }, workers: 0 });
});

test("workers prints each status, and warns of lost workers and mixed versions", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  for (const [id, version] of [
    ["serves", "1.1.0"],
    ["drains", "1.0.0"],
    ["quiet", "1.1.0"],
  ] as const)
    await registerWorker(fresh.db, {
      id,
      host: "web-1",
      pid: 7,
      version,
      pools: { mail: 3 },
      kinds: ["send-receipt"],
    });
  await heartbeat(fresh.db, "drains", { listening: false, draining: true });
  await fresh.sql("update stint.worker set seen_at = now() - interval '90 seconds' where id = 'quiet'");

  const { stdout, stderr } = await run("workers");

  expect(stdout).toMatch(/^WORKER +STATUS +SLOTS/);
  expect(stdout).toMatch(/^serves +serving .* 1\.1\.0 /m);
  expect(stdout).toMatch(/^drains +draining .* 1\.0\.0 \(old\) /m);
  expect(stdout).toMatch(/^quiet +not responding /m);
  expect(stderr).toContain("Workers of several versions run side by side: 1.1.0, 1.0.0.");
  expect(stderr).toContain("Worker quiet is not responding.");
  expect(jsonOf(await run("workers", "--json"))).toMatchObject({
    workers: expect.arrayContaining([
      expect.objectContaining({ id: "drains", state: "draining", behind: true }),
    ]),
  });
});

test("a sleeping worker is not reported as lost", () => {
  const worker = { version: "1", draining: false, asleep: true, heartbeatAgeMs: 600_000 } as WorkerView;

  expect(stateOf(worker)).toBe("asleep");
  expect(stateOf({ ...worker, asleep: false })).toBe("not responding");
  expect(versionsOf([worker, { ...worker, version: "2" }, { ...worker, version: "2" }])).toEqual(["2", "1"]);
});
