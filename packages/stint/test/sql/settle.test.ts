import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { cancel } from "#stint/sql/operate.js";
import { finish, type Finish } from "#stint/sql/finish.js";
import { requeue, type Requeue } from "#stint/sql/requeue.js";
import { settledByOwner } from "#stint/sql/settled.js";
import type { Fence } from "#stint/model/job.js";
import { get } from "#stint/sql/find.js";
import { rescue } from "#stint/sql/rescue.js";
import { freshSchema } from "../support/fresh.ts";
import { addOne, auditInfo, expire, running, stored, take } from "./jobs.ts";

const succeed = (fence: Fence): Finish => ({
  fence,
  state: "succeeded",
  result: '{"n":1}',
  reason: null,
  ending: null,
});
const failure = { class: "Error", message: "boom" };
const die = (fence: Fence): Finish => ({
  fence,
  state: "dead",
  result: null,
  reason: "failed",
  ending: { outcome: "failed", error: failure },
});
const retry = (fence: Fence, delayMs = 60_000): Requeue => ({
  fence,
  state: "retrying",
  delayMs,
  countsAs: "attempt",
  ending: { outcome: "failed", error: failure },
});
const release = (fence: Fence): Requeue => ({
  fence,
  state: "ready",
  delayMs: null,
  countsAs: "interruption",
  ending: { outcome: "released" },
});

test("a success moves the job into history with everything it had", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db, {
    key: "k",
    tenant: "t",
    tags: ["x", "y"],
    meta: { a: 1 },
    payload: [1],
  });
  const before = await stored(fresh, fence.job);

  const settled = await finish(fresh.db, [succeed(fence)]);

  expect([...settled]).toEqual([fence]);
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
  const after = await stored(fresh, fence.job);
  expect(after).toEqual({
    ...before,
    state: "succeeded",
    lease_until: null,
    finished_at: expect.any(Date) as Date,
    result: { n: 1 },
  });
  expect((await get(fresh.db, fence.job))?.log).toMatchObject([
    { epoch: 1, worker: "w1", outcome: "succeeded" },
  ]);
});

test("a result of JSON null is stored as JSON null", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);

  await finish(fresh.db, [{ ...succeed(fence), result: "null" }]);

  expect(await fresh.sql(`select result::text from stint.history`)).toEqual([{ result: "null" }]);
});

test("an end other than success keeps its attempt: worker, times, lease and error", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);

  await finish(fresh.db, [die(fence)]);

  const job = await stored(fresh, fence.job);
  expect(job).toMatchObject({ state: "dead", reason: "failed", attempts: 1 });
  expect(job.log).toEqual([
    {
      epoch: 1,
      worker: "w1",
      lease: fence.leaseId,
      startedAt: expect.any(String) as string,
      endedAt: expect.any(String) as string,
      outcome: "failed",
      error: failure,
    },
  ]);
});

test.each([
  ["finish", async (db: Parameters<typeof finish>[0], fence: Fence) => await finish(db, [succeed(fence)])],
  ["put back", async (db: Parameters<typeof finish>[0], fence: Fence) => await requeue(db, [retry(fence)])],
])("%s: another epoch, another lease and a repeat are refused and change nothing", async (_, settle) => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const before = await stored(fresh, fence.job);

  const wrongEpoch = await settle(fresh.db, { ...fence, epoch: 2 });
  const wrongLease = await settle(fresh.db, { ...fence, leaseId: newId() });
  const unchanged = await stored(fresh, fence.job);
  const first = await settle(fresh.db, fence);
  const after = await stored(fresh, fence.job);
  const second = await settle(fresh.db, fence);

  expect([wrongEpoch.size, wrongLease.size, first.size, second.size]).toEqual([0, 0, 1, 0]);
  expect(unchanged).toEqual(before);
  expect(await stored(fresh, fence.job)).toEqual(after);
});

test("each job of a batch is decided alone: current fences settle, stale ones do not", async () => {
  const fresh = await freshSchema();
  const good = await running(fresh.db);
  const stale = await running(fresh.db);

  const settled = await finish(fresh.db, [{ ...succeed(stale), fence: { ...stale, epoch: 9 } }, die(good)]);

  expect([...settled]).toEqual([good]);
  expect((await stored(fresh, stale.job)).state).toBe("running");
});

test("a stale fence of a job is not taken for the current one in the same batch", async () => {
  const fresh = await freshSchema();
  const [ended, back] = [await running(fresh.db), await running(fresh.db)];
  const stale = (fence: Fence): Fence[] => [
    { ...fence, epoch: fence.epoch - 1, leaseId: newId() },
    { ...fence, epoch: fence.epoch - 1 },
    { ...fence, leaseId: newId() },
  ];
  const among = (fence: Fence): Fence[] => [...stale(fence), fence];

  expect([
    ...(await requeue(
      fresh.db,
      among(back).map((fence) => retry(fence)),
    )),
  ]).toEqual([back]);
  expect([...(await finish(fresh.db, among(ended).map(succeed)))]).toEqual([ended]);
  expect([...(await settledByOwner(fresh.db, [...stale(ended).slice(0, 1), ended]))]).toEqual([ended]);
});

test("a retry spends the attempt and waits; a release spends none and keeps its place", async () => {
  const fresh = await freshSchema();
  const retried = await running(fresh.db);
  const released = await running(fresh.db, { run_at: "2020-01-01T00:00:00Z" });

  const ids = await requeue(fresh.db, [retry(retried, 60_000), release(released)]);

  expect(ids.size).toBe(2);
  expect(await stored(fresh, retried.job)).toMatchObject({
    state: "retrying",
    attempts: 1,
    interruptions: 0,
    lease_id: null,
    worker: null,
  });
  expect(await stored(fresh, released.job)).toMatchObject({
    state: "ready",
    attempts: 0,
    interruptions: 1,
    run_at: new Date("2020-01-01T00:00:00Z"),
    log: [{ outcome: "released", lease: released.leaseId }],
  });
  const [wait] = await fresh.sql<{ ms: number }>(
    `select extract(epoch from run_at - clock_timestamp())::float8 * 1000 as ms from stint.job where state = 'retrying'`,
  );
  expect(wait?.ms).toBeGreaterThan(50_000);
  expect(wait?.ms).toBeLessThanOrEqual(60_000);
});

test("a snoozed job is scheduled; without a delay it is ready at once", async () => {
  const fresh = await freshSchema();
  const snoozed = await running(fresh.db);
  const atOnce = await running(fresh.db);

  await requeue(fresh.db, [
    {
      fence: snoozed,
      state: "scheduled",
      delayMs: 5_000,
      countsAs: "interruption",
      ending: { outcome: "snoozed" },
    },
    retry(atOnce, 0),
  ]);

  expect(await stored(fresh, snoozed.job)).toMatchObject({
    state: "scheduled",
    attempts: 0,
    interruptions: 1,
  });
  expect(await stored(fresh, atOnce.job)).toMatchObject({ state: "ready", attempts: 1 });
});

test("a job with a requested cancel cannot be requeued, but can be finished", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await cancel(fresh.db, fence.job, auditInfo());

  const back = await requeue(fresh.db, [release(fence)]);
  const ended = await finish(fresh.db, [
    {
      fence,
      state: "cancelled",
      result: null,
      reason: "cancelled while it ran",
      ending: { outcome: "released" },
    },
  ]);

  expect(back.size).toBe(0);
  expect(ended.size).toBe(1);
  expect((await stored(fresh, fence.job)).state).toBe("cancelled");
});

test("of more than 20 attempts, the first and the latest 19 are kept", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  for (let round = 0; round < 25; round++) {
    const [job] = await take(fresh.db);
    await requeue(fresh.db, [retry(job!.fence, 0)]);
  }

  const job = await stored(fresh, id);

  expect(job.log?.map((entry) => entry["epoch"])).toEqual([
    1,
    ...Array.from({ length: 19 }, (_, n) => n + 7),
  ]);
  expect(job["attempts"]).toBe(25);
});

test("after a lost reply a worker can distinguish its own settle from a lost lease", async () => {
  const fresh = await freshSchema();
  const { db } = fresh;
  const [succeeded, dead, back, taken, held] = [
    await running(db),
    await running(db),
    await running(db),
    await running(db),
    await running(db),
  ];
  await finish(db, [succeed(succeeded), die(dead)]);
  await requeue(db, [retry(back)]);
  await expire(fresh, taken.job);
  await rescue(db, { limit: 10, maxCrashes: 3 });

  const own = await settledByOwner(db, [
    succeeded,
    dead,
    back,
    taken,
    held,
    { ...succeeded, leaseId: newId() },
    { job: newId(), epoch: 1, leaseId: newId() },
  ]);

  expect(own).toEqual(new Set([succeeded, dead, back]));
});

test("a result that is not JSON refuses the whole batch and leaves every job as it was", async () => {
  const fresh = await freshSchema();
  const good = await running(fresh.db);
  const bad = await running(fresh.db);

  const attempt = finish(fresh.db, [succeed(good), { ...succeed(bad), result: '"\\u0000"' }]);

  await expect(attempt).rejects.toMatchObject({ code: "22P05" });
  expect(await fresh.sql(`select from stint.job where state = 'running'`)).toHaveLength(2);
});
