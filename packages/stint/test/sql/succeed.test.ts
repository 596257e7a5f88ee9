import { expect, test } from "vitest";
import type { Fence } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import { cancel } from "#stint/sql/operate.js";
import { rescue } from "#stint/sql/rescue.js";
import { finish } from "#stint/sql/finish.js";
import { requeue } from "#stint/sql/requeue.js";
import { succeed } from "#stint/sql/succeed.js";
import { freshSchema } from "../support/fresh.ts";
import { add, auditInfo, expire, running, stored, take, type JobInput, wrongFences } from "./jobs.ts";

test("of jobs from several claims, exactly those with a current fence succeed", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 9 }, () => ({})),
  );
  const claims = [await take(fresh.db, { limit: 4 }), await take(fresh.db, { limit: 5 })];
  const fences = claims.flat().map((job) => job.fence);
  const [first, ...others] = fences;
  const lost = fences[6]!;
  await expire(fresh, lost.job);
  await rescue(fresh.db, { limit: 10, maxCrashes: 3 });

  expect(await succeed(fresh.db, [first!])).toEqual(new Set([first]));
  const kept = others.filter((fence) => fence !== lost);
  expect(await succeed(fresh.db, others)).toEqual(new Set(kept));

  const done = await fresh.sql<{ id: string }>("select id from stint.history where state = 'succeeded'");
  expect(new Set(done.map((row) => row.id))).toEqual(new Set([first!, ...kept].map((fence) => fence.job)));
  expect(await stored(fresh, lost.job)).toMatchObject({ state: "ready", crashes: 1 });
});

test("with no current fence, nothing is returned and nothing is written", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const before = await stored(fresh, fence.job);
  const wrong = wrongFences(fence);

  expect(await succeed(fresh.db, wrong)).toEqual(new Set());
  for (const one of wrong) expect(await succeed(fresh.db, [one])).toEqual(new Set());
  expect(await stored(fresh, fence.job)).toEqual(before);
});

test("each fence is checked against its own lease: swapped fences both fail", async () => {
  const fresh = await freshSchema();
  const [one, two] = [await running(fresh.db), await running(fresh.db)];

  expect(
    await succeed(fresh.db, [
      { ...one, leaseId: two.leaseId },
      { ...two, leaseId: one.leaseId },
    ]),
  ).toEqual(new Set());
  expect(await fresh.sql("select from stint.job where state = 'running'")).toHaveLength(2);
});

test("a stale fence of a job is not taken for the current one in the same batch", async () => {
  const fresh = await freshSchema();
  const current = await running(fresh.db);
  const stale = { ...current, epoch: current.epoch - 1, leaseId: newId() };

  expect(await succeed(fresh.db, [stale, current])).toEqual(new Set([current]));
});

test("a repeated success is refused", async () => {
  const fresh = await freshSchema();
  const [one, two] = [await running(fresh.db), await running(fresh.db)];
  await succeed(fresh.db, [one]);

  expect(await succeed(fresh.db, [one, two])).toEqual(new Set([two]));
  expect(await fresh.sql("select from stint.history")).toHaveLength(2);
});

test("the history row equals that of a finish without a result", async () => {
  const fresh = await freshSchema();
  const full: JobInput = {
    key: "k",
    tenant: "t",
    tags: ["x", "y"],
    meta: { a: 1 },
    payload: { n: [1] },
    priority: 3,
    max_attempts: 4,
    max_crashes: 5,
    timeout_ms: 6_000,
    lease_ms: 7_000,
    run_at: "2020-01-01T00:00:00Z",
  };
  // With a past, so that there is a log to carry over.
  const twice = async (): Promise<Fence> => {
    const first = await running(fresh.db, full);
    await requeue(fresh.db, [
      { fence: first, state: "retrying", delayMs: 0, countsAs: "attempt", ending: { outcome: "failed" } },
    ]);
    return (await take(fresh.db, { limit: 1 }))[0]!.fence;
  };
  const short = await twice();
  await succeed(fresh.db, [short]);
  const long = await twice();
  await finish(fresh.db, [{ fence: long, state: "succeeded", result: null, reason: null, ending: null }]);

  const own = new Set(["id", "lease_id", "run_at", "created_at", "claimed_at", "finished_at", "log"]);
  const [one, two] = [await stored(fresh, short.job), await stored(fresh, long.job)];
  const common = (row: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(row).filter(([name]) => !own.has(name)));
  expect(common(one)).toEqual(common(two));
  expect(common(one)).toMatchObject({ state: "succeeded", attempts: 2, key: "k", tags: ["x", "y"] });
  for (const row of [one, two]) {
    expect(row).toMatchObject({
      finished_at: expect.any(Date) as Date,
      claimed_at: expect.any(Date) as Date,
      log: [{ outcome: "failed" }],
    });
  }
  expect([one["lease_id"], two["lease_id"]]).toEqual([short.leaseId, long.leaseId]);
});

test("a job that ran to its end succeeds even if a cancel was requested meanwhile", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await cancel(fresh.db, fence.job, auditInfo());

  expect(await succeed(fresh.db, [fence])).toEqual(new Set([fence]));
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "succeeded" });
});
