import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { cancel, replay, runNow, stateOf } from "#stint/sql/operate.js";
import { finish } from "#stint/sql/finish.js";
import { requeue } from "#stint/sql/requeue.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { addOne, auditInfo, expire, running, stored, take } from "./jobs.ts";

type AuditRow = { id: string; actor: string; action: string; reason: string | null; job_id: string };
const audit = async (fresh: Fresh): Promise<AuditRow[]> =>
  await fresh.sql<AuditRow>(`select id, actor, action, reason, job_id from stint.audit order by at`);

async function dead(fresh: Fresh): Promise<string> {
  const fence = await running(fresh.db, { key: "k", tags: ["t"], payload: { a: 1 } });
  await finish(fresh.db, [
    { fence, state: "dead", result: null, reason: "failed", ending: { outcome: "failed" } },
  ]);
  return fence.job;
}

test("cancelling a waiting job ends it, with actor and reason", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { delay_ms: 60_000, key: "k" });
  const why = auditInfo("customer left");

  const was = await cancel(fresh.db, id, why);

  expect(was).toBe("waiting");
  expect(await stored(fresh, id)).toMatchObject({
    state: "cancelled",
    reason: "customer left",
    key: "k",
    epoch: "0",
  });
  expect(await audit(fresh)).toEqual([
    { id: why.auditId, actor: "tester", action: "cancel", reason: "customer left", job_id: id },
  ]);
});

test("cancelling a running job requests its end and leaves the attempt its lease", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);

  const was = await cancel(fresh.db, fence.job, auditInfo());

  expect(was).toBe("running");
  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "running",
    cancel_requested: true,
    lease_id: fence.leaseId,
  });
  expect(await audit(fresh)).toHaveLength(1);
});

test("cancel, runNow and replay of a job in another state change and record nothing", async () => {
  const fresh = await freshSchema();
  const ended = await running(fresh.db);
  await finish(fresh.db, [{ fence: ended, state: "succeeded", result: null, reason: null, ending: null }]);
  const ready = await addOne(fresh.db);
  const before = await fresh.sql(`select * from stint.jobs order by id`);

  const results = [
    await cancel(fresh.db, ended.job, auditInfo()),
    await cancel(fresh.db, newId(), auditInfo()),
    await runNow(fresh.db, ready, auditInfo()),
    await runNow(fresh.db, ended.job, auditInfo()),
    await replay(fresh.db, ready, auditInfo()),
    await replay(fresh.db, ended.job, auditInfo()),
    await replay(fresh.db, newId(), auditInfo()),
  ];

  expect(results).toEqual(results.map(() => undefined));
  expect(await fresh.sql(`select * from stint.jobs order by id`)).toEqual(before);
  expect(await audit(fresh)).toEqual([]);
});

test.each(["scheduled", "retrying", "parked"] as const)("a %s job can be run now", async (state) => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  await fresh.sql(
    `update stint.job set state = $1, park_reason = 'review', run_at = now() + interval '1 day'`,
    [state],
  );

  const queue = await runNow(fresh.db, id, auditInfo());

  expect(queue).toBe("main");
  expect(await stored(fresh, id)).toMatchObject({ state: "ready", reason: null });
  expect((await take(fresh.db)).map((job) => job.fence.job)).toEqual([id]);
  expect(await audit(fresh)).toMatchObject([{ action: "run-now", job_id: id }]);
});

test("a replay starts a new run with fresh attempts; the epoch and the log continue", async () => {
  const fresh = await freshSchema();
  const id = await dead(fresh);

  const queue = await replay(fresh.db, id, auditInfo("fixed the template"));

  expect(queue).toBe("main");
  expect(await stored(fresh, id)).toMatchObject({
    state: "ready",
    run: 2,
    epoch: "1",
    attempts: 0,
    crashes: 0,
    reason: null,
    key: "k",
    tags: ["t"],
    payload: { a: 1 },
    log: [{ epoch: 1, outcome: "failed" }],
  });
  expect(await fresh.sql(`select from stint.history`)).toEqual([]);
  expect(await audit(fresh)).toMatchObject([{ action: "replay", reason: "fixed the template" }]);
  expect((await take(fresh.db))[0]).toMatchObject({ attempt: 1, run: 2, fence: { epoch: 2 } });
});

test("a worker from before the replay can no longer match the job's fence", async () => {
  const fresh = await freshSchema();
  const old = await running(fresh.db);
  await finish(fresh.db, [
    { fence: old, state: "dead", result: null, reason: "x", ending: { outcome: "failed" } },
  ]);
  await replay(fresh.db, old.job, auditInfo());
  await take(fresh.db);

  const finished = await finish(fresh.db, [
    { fence: old, state: "succeeded", result: null, reason: null, ending: null },
  ]);
  const back = await requeue(fresh.db, [
    { fence: old, state: "ready", delayMs: null, countsAs: "interruption", ending: { outcome: "released" } },
  ]);

  expect([finished.size, back.size]).toEqual([0, 0]);
  expect(await stateOf(fresh.db, old.job)).toBe("running");
});

test("an operation and its audit row commit or roll back together", async () => {
  const fresh = await freshSchema();
  const id = await dead(fresh);
  const noted = auditInfo();
  await fresh.sql(`insert into stint.audit (id, actor, action, job_id) values ($1, 'x', 'x', $2)`, [
    noted.auditId,
    id,
  ]);

  await expect(replay(fresh.db, id, noted)).rejects.toMatchObject({ code: "23505" });

  expect(await stateOf(fresh.db, id)).toBe("dead");
});

test("a cancelled job can be replayed, and its crash counter is reset", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await expire(fresh, fence.job);
  await cancel(fresh.db, fence.job, auditInfo());
  await finish(fresh.db, [
    { fence, state: "cancelled", result: null, reason: "x", ending: { outcome: "cancelled" } },
  ]);

  await replay(fresh.db, fence.job, auditInfo());

  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "ready",
    run: 2,
    crashes: 0,
    cancel_requested: false,
  });
});
