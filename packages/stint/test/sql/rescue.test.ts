import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { claimQuarantined, reserveQuarantined } from "#stint/sql/claim.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { registerKinds } from "#stint/sql/kinds.js";
import { cancel } from "#stint/sql/operate.js";
import { rescue } from "#stint/sql/rescue.js";
import { requeue } from "#stint/sql/requeue.js";
import type { Fresh } from "../support/fresh.ts";
import { freshSchema } from "../support/fresh.ts";
import { add, addOne, auditInfo, expire, running, stored, take } from "./jobs.ts";
import { session } from "./sessions.ts";

const limits = { limit: 200, maxCrashes: 3 };

async function claimAlone(fresh: Fresh): Promise<ClaimedJob> {
  const [job] = await claimQuarantined(fresh.db, {
    worker: "w1",
    leaseId: newId(),
    queues: ["main"],
    kinds: ["work"],
    kindLeaseMs: {},
    leaseMs: 30_000,
    waitedMs: 0,
  });
  if (job === undefined) throw new Error("no job is in quarantine");
  return job;
}

test("only jobs with an expired lease are rescued", async () => {
  const fresh = await freshSchema();
  const alive = await running(fresh.db);
  const lost = await running(fresh.db);
  await expire(fresh, lost.job);

  const rescued = await rescue(fresh.db, limits);

  expect(rescued).toEqual([
    {
      job: lost.job,
      kind: "work",
      queue: "main",
      worker: "w1",
      key: null,
      tenant: null,
      tags: [],
      attempt: 1,
      crashes: 1,
      state: "ready",
    },
  ]);
  expect((await stored(fresh, alive.job)).state).toBe("running");
});

test("a crash spends no attempt, keeps the job's place and is counted apart", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db, { run_at: "2020-01-01T00:00:00Z" });
  await expire(fresh, fence.job);

  await rescue(fresh.db, limits);

  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "ready",
    attempts: 0,
    crashes: 1,
    interruptions: 0,
    epoch: "1",
    lease_id: null,
    lease_until: null,
    worker: null,
    run_at: new Date("2020-01-01T00:00:00Z"),
    log: [{ epoch: 1, worker: "w1", lease: fence.leaseId, outcome: "crashed" }],
  });
});

test("a job is quarantined before its last allowed crash, and dead after it", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  const seen: unknown[] = [];

  for (const alone of [false, false, true]) {
    if (alone) {
      await claimAlone(fresh);
    } else {
      await take(fresh.db);
    }
    await expire(fresh, id);
    const [one] = await rescue(fresh.db, limits);
    const { reason, park_reason: parkReason, attempts } = await stored(fresh, id);
    seen.push([one?.state, one?.crashes, parkReason ?? reason, attempts]);
  }

  expect(seen).toEqual([
    ["ready", 1, null, 0],
    ["parked", 2, "quarantine", 0],
    ["dead", 3, "worker died while running it", 0],
  ]);
  expect((await stored(fresh, id)).log).toHaveLength(3);
});

test("a job's own crash limit overrides the worker's default", async () => {
  const fresh = await freshSchema();
  const once = await running(fresh.db, { max_crashes: 1 });
  const often = await running(fresh.db, { max_crashes: 50 });
  await expire(fresh, once.job, often.job);

  const rescued = await rescue(fresh.db, { limit: 10, maxCrashes: 2 });

  expect(new Map(rescued.map((one) => [one.job, one.state]))).toEqual(
    new Map([
      [once.job, "dead"],
      [often.job, "ready"],
    ]),
  );
});

test("a suspect that failed alone is run alone again after a crash beside others", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db, { max_crashes: 2 });
  await expire(fresh, fence.job);
  await rescue(fresh.db, limits);
  const alone = await claimAlone(fresh);
  await requeue(fresh.db, [
    { fence: alone.fence, state: "retrying", delayMs: 0, countsAs: "attempt", ending: { outcome: "failed" } },
  ]);

  await take(fresh.db);
  await expire(fresh, fence.job);
  const [beside] = await rescue(fresh.db, limits);
  await claimAlone(fresh);
  await expire(fresh, fence.job);
  const [condemned] = await rescue(fresh.db, limits);

  expect(beside).toMatchObject({ state: "parked", crashes: 2 });
  expect(condemned).toMatchObject({ state: "dead", crashes: 3 });
});

test("leases are compared with the time the rescue was sent, however long it waited", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const rescuer = await session(fresh);
  await rescuer.begin();
  await rescuer.client.query("select 1");
  await fresh.sql(`update stint.job set lease_until = clock_timestamp()`);

  const early = await rescue(rescuer, limits);
  await rescuer.commit();
  const late = await rescue(fresh.db, limits);

  expect(early).toEqual([]);
  expect(late).toMatchObject([{ job: fence.job }]);
});

test("a crash suspect is reserved by one busy worker at a time", async () => {
  const fresh = await freshSchema();
  await running(fresh.db);
  await fresh.sql(
    `update stint.job set state = 'parked', park_reason = 'quarantine', lease_id = null, run_at = now() - interval '1 hour'`,
  );
  const ask = { kinds: ["work"], queues: ["main"], waitedMs: 30_000 };

  expect([await reserveQuarantined(fresh.db, ask), await reserveQuarantined(fresh.db, ask)]).toEqual([
    true,
    false,
  ]);
});

test("a rescuer that does not serve the kind uses the kind's registered settings", async () => {
  const fresh = await freshSchema();
  await registerKinds(fresh.db, [{ name: "work", queue: "main", priority: null, maxCrashes: 1 }]);
  const fence = await running(fresh.db);
  await expire(fresh, fence.job);

  const [rescued] = await rescue(fresh.db, limits);

  expect(rescued?.state).toBe("dead");
});

test("a job with a requested cancel is cancelled when its worker dies", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await cancel(fresh.db, fence.job, auditInfo());
  await expire(fresh, fence.job);

  const [rescued] = await rescue(fresh.db, limits);

  expect(rescued?.state).toBe("cancelled");
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "cancelled", crashes: 1, attempts: 0 });
});

test("300 expired jobs behind 300 live ones are all found, page by page", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 600 }, () => ({})),
  );
  const claimed = await take(fresh.db, { limit: 600 });
  // Every second one is lost; the live ones are the older rows of the table and of the index.
  const lost = claimed.filter((_, index) => index % 2 === 1).map((job) => job.fence.job);
  await expire(fresh, ...lost);

  const pages: string[][] = [];
  for (;;) {
    const page = await rescue(fresh.db, { limit: 100, maxCrashes: 3 });
    if (page.length === 0) break;
    pages.push(page.map((one) => one.job));
  }

  expect(pages.map((page) => page.length)).toEqual([100, 100, 100]);
  expect(new Set(pages.flat())).toEqual(new Set(lost));
  expect(await count(fresh, "running")).toBe(300);
});

async function count(fresh: Fresh, state: string): Promise<number> {
  const [row] = await fresh.sql<{ n: number }>(
    `select count(*)::integer as n from stint.job where state = $1`,
    [state],
  );
  return row?.n ?? -1;
}
