import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { claimQuarantined } from "#stint/sql/claim.js";
import { cancel } from "#stint/sql/operate.js";
import { release } from "#stint/sql/release.js";
import { releaseUnbegun } from "#stint/worker/release-unbegun.js";
import { freshSchema } from "../support/fresh.ts";
import { addOne, auditInfo, running, stored, take, wrongFences } from "./jobs.ts";
import { sessions } from "./sessions.ts";

test("a job released before its start is as before its claim, except for its epoch", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { run_at: "2020-01-01T00:00:00Z", priority: 2, meta: { a: 1 } });
  const before = await stored(fresh, id);
  const [job] = await take(fresh.db);

  expect(await release(fresh.db, [job!.fence])).toEqual([{ fence: job!.fence, queue: "main", went: "back" }]);
  expect(await stored(fresh, id)).toEqual({ ...before, epoch: "1" });
});

test("another epoch, lease or job and a second release are refused and change nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const before = await stored(fresh, fence.job);
  const wrong = wrongFences(fence);
  const lost = { queue: null, went: "lost" };

  expect(await release(fresh.db, wrong)).toMatchObject([lost, lost, lost]);
  expect(await releaseUnbegun(fresh.db, wrong)).toEqual({ queues: [], left: [] });
  expect(await stored(fresh, fence.job)).toEqual(before);
  expect(await release(fresh.db, [fence])).toMatchObject([{ went: "back" }]);
  expect(await release(fresh.db, [fence])).toMatchObject([lost]);
});

test("a stale fence of a job is not taken for the current one in the same batch", async () => {
  const fresh = await freshSchema();
  const current = await running(fresh.db);
  const stale = { ...current, epoch: current.epoch - 1, leaseId: newId() };

  const results = await release(fresh.db, [stale, current]);
  expect(new Map(results.map(({ fence, went }) => [fence.epoch, went]))).toEqual(
    new Map([
      [stale.epoch, "lost"],
      [current.epoch, "back"],
    ]),
  );
});

test("each job of a batch is decided alone; each queue with releases is returned once", async () => {
  const fresh = await freshSchema();
  const places = ["a", "a", "b", "c"];
  for (const queue of places) await addOne(fresh.db, { queue });
  const jobs = await take(fresh.db, { takes: ["a", "b", "c"].map((queue) => ({ queue, limit: 9 })) });
  const fences = jobs.map(({ queue, fence: { job, epoch, leaseId } }) => ({
    job,
    epoch: queue === "c" ? 7 : epoch,
    leaseId,
  }));

  const { queues, left } = await releaseUnbegun(fresh.db, fences);
  expect([queues.sort(), left]).toEqual([["a", "b"], []]);
  expect(await fresh.sql("select queue from stint.job where state = 'running'")).toEqual([{ queue: "c" }]);
});

test("a job with a requested cancel is not released: it ends as cancelled", async () => {
  const fresh = await freshSchema();
  const [asked, other] = [await running(fresh.db), await running(fresh.db)];
  await cancel(fresh.db, asked.job, { ...auditInfo(), reason: null });

  expect(await release(fresh.db, [asked])).toEqual([{ fence: asked, queue: null, went: "cancelled" }]);
  expect((await stored(fresh, asked.job)).state).toBe("running");
  expect(await releaseUnbegun(fresh.db, [asked, other])).toEqual({ queues: ["main"], left: [] });

  expect(await stored(fresh, asked.job)).toMatchObject({
    state: "cancelled",
    reason: "cancelled before it began",
    log: [{ outcome: "cancelled" }],
  });
  expect(await stored(fresh, other.job)).toMatchObject({ state: "ready", attempts: 0, log: null });
});

test("a locked job is skipped and stays leased; the others are released at once", async () => {
  const fresh = await freshSchema();
  const [locked, asked, free] = [await running(fresh.db), await running(fresh.db), await running(fresh.db)];
  await cancel(fresh.db, asked.job, auditInfo());
  const [other] = await sessions(fresh, 1);
  await other!.begin();
  await other!.client.query(`select from "${fresh.schema}".job where id = any ($1) for update`, [
    [locked.job, asked.job],
  ]);

  const all = [locked, asked, free];
  expect(await releaseUnbegun(fresh.db, all)).toEqual({ queues: ["main"], left: [locked, asked] });
  expect(await stored(fresh, locked.job)).toMatchObject({ state: "running", lease_id: locked.leaseId });
  await other!.rollback();
  expect(await releaseUnbegun(fresh.db, [locked, asked])).toEqual({ queues: ["main"], left: [] });
  expect((await stored(fresh, locked.job)).state).toBe("ready");
  expect((await stored(fresh, asked.job)).state).toBe("cancelled");
});

test("a released crash suspect remains one and keeps its place in the line", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  await fresh.sql(
    "update stint.job set state = 'parked', park_reason = 'quarantine', crashes = 2, run_at = now() - interval '5 s'",
  );
  const before = await stored(fresh, id);
  const [job] = await claimQuarantined(fresh.db, {
    worker: "w1",
    leaseId: newId(),
    kinds: ["work"],
    queues: ["main"],
    kindLeaseMs: {},
    leaseMs: 30_000,
    waitedMs: 0,
  });
  await release(fresh.db, [job!.fence]);

  expect(await stored(fresh, id)).toEqual({ ...before, epoch: "1" });
});

test("released jobs are claimed next", async () => {
  const fresh = await freshSchema();
  const first = await running(fresh.db, { run_at: "2020-01-01T00:00:00Z" });
  await addOne(fresh.db);
  await release(fresh.db, [first]);

  const [again] = await take(fresh.db, { limit: 1 });
  expect(again).toMatchObject({ fence: { job: first.job, epoch: 2 }, attempt: 1 });
});
