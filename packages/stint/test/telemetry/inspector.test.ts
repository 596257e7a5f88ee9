import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, PermanentError, snooze, typed, type Stint } from "#stint/index.js";
import type { Inspector } from "#stint/inspect.js";
import { fold } from "#stint/sql/tallies.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { expire } from "../sql/jobs.ts";

const mail = defineJob("mail", { queue: "notes", payload: typed<{ does?: string }>() });
const report = defineJob("report", { queue: "slow", payload: typed<object>(), timeout: "1h" });

function inspect(stint: Stint): Inspector {
  const inspector = stint.inspector();
  onTestFinished(() => inspector.close());
  return inspector;
}

/** Eight jobs that end in every possible way, two ready, one scheduled; the worker has stopped and flushed its counts. */
async function someLife(): Promise<{ fresh: Fresh; stint: Stint; inspector: Inspector }> {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { worker, all } = await startWorker(stint, {
    pools: { notes: 4 },
    attempts: 2,
    backoff: () => 0,
    handlers: [
      handle(mail, ({ payload: { does }, attempt }) => {
        if (does === "fail once" && attempt === 1) throw new Error("once");
        if (does === "fail twice") throw new Error("twice");
        if (does === "die") throw new PermanentError("for good");
        if (does === "snooze") return snooze("1h");
        return undefined;
      }),
    ],
  });
  const outcomes = ["succeed", "succeed", "succeed", "fail once", "fail twice", "die", "snooze", "succeed"];
  await Promise.all(
    outcomes.map(async (does, n) => await stint.enqueue(mail, { does }, { tenant: n < 5 ? "big" : "small" })),
  );
  await until(() => all("settled").length === 10, { message: "every attempt has ended" });
  await worker.stop();
  await stint.enqueue(report, {});
  await stint.enqueue(report, {}, { priority: 5 });
  await stint.enqueue(mail, {}, { delay: "1h" });
  await fold(fresh.db, 0);
  return { fresh, stint, inspector: inspect(stint) };
}

test("stats: depth, counts of the last hour and busiest tenants", async () => {
  const { inspector } = await someLife();
  const stats = await inspector.stats();

  expect(stats.total).toEqual({ scheduled: 2, ready: 2, running: 0, retrying: 0, parked: 0, dead: 2 });
  expect(stats.lastHour).toMatchObject({
    arrived: 11,
    claimed: 10,
    succeeded: 5,
    failed: 4,
    retried: 2,
    dead: 2,
    cancelled: 0,
    rescued: 0,
  });
  expect(stats.lastHour.run.p50).toBeGreaterThan(0);
  expect(stats.lastHour.wait.p95).toBeGreaterThan(0);
  expect(stats.rates.succeeded).toBeGreaterThan(5 / 71);
  expect(stats.rates.succeeded).toBeLessThanOrEqual(5 / 60);
  expect(stats.byQueue.map(({ queue, depth }) => [queue, depth.ready, depth.dead])).toEqual([
    ["notes", 0, 2],
    ["slow", 2, 0],
  ]);
  expect(stats.byKind).toMatchObject([
    { queue: "notes", kind: "mail", depth: { scheduled: 2, dead: 2 } },
    { queue: "slow", kind: "report", depth: { ready: 2 } },
  ]);
  expect(stats.byPriority).toMatchObject([
    { queue: "notes", priority: 0 },
    { queue: "slow", priority: 0, depth: { ready: 1 } },
    { queue: "slow", priority: 5, depth: { ready: 1 } },
  ]);
  expect(stats.topTenants.map(({ tenant, ended }) => [tenant, ended])).toEqual([
    ["big", 7],
    ["small", 3],
  ]);
});

test("health: one row per queue, worst first, and the unserved kinds", async () => {
  const { fresh, inspector } = await someLife();
  await fresh.sql(
    `update stint.job set run_at = now() - interval '4 min' where queue = 'slow' and priority = 5`,
  );
  const { queues, total, workers, slow, unserved } = await inspector.health();
  const [first, second] = queues;

  expect(queues.map(({ queue }) => queue)).toEqual(["slow", "notes"]);
  expect(first).toMatchObject({
    targetMs: 300_000,
    workers: 0,
    drainMs: null,
    retryShare: null,
    oldestDeadMs: null,
  });
  expect(first!.oldestReadyMs).toBeGreaterThanOrEqual(240_000);
  expect(first!.oldestReadyMs).toBeLessThan(300_000);
  // No worker claims the job, so its age grows.
  expect(Math.abs(first!.breachInMs! - (300_000 - first!.oldestReadyMs!))).toBeLessThan(10_000);
  expect(second).toMatchObject({ oldestReadyMs: null, breachInMs: null, drainMs: 0, retryShare: 0.2 });
  expect(second!.oldestDeadMs).toBeGreaterThan(0);
  expect(second!.run.p95).toBeGreaterThan(0);
  expect(second!.rates.failed).toBeGreaterThan(0);
  expect(second!.recent).toHaveLength(30);
  const sum = (of: (minute: { arrived: number; ended: number }) => number): number =>
    second!.recent.reduce((count, minute) => count + of(minute), 0);
  expect([sum(({ arrived }) => arrived), sum(({ ended }) => ended)]).toEqual([9, 7]);
  expect(total).toMatchObject({ ready: 2, dead: 2 });
  expect([workers, slow]).toEqual([0, 0]);
  expect(unserved).toMatchObject([{ kind: "report", queue: "slow" }]);
  expect(unserved[0]!.oldestReadyMs).toBeGreaterThanOrEqual(240_000);
});

test("health: a retried or snoozed job has not left the queue", async () => {
  const { inspector } = await someLife();
  const notes = (await inspector.health()).queues.find(({ queue }) => queue === "notes");
  // Five succeeded and two died, of ten attempts of which two were retried and one snoozed.
  expect(notes!.recent.reduce((sum, { ended }) => sum + ended, 0)).toBe(7);
  expect(notes!.rates.ended).toBeLessThanOrEqual(7 / 60);
  expect(notes!.retryShare).toBeCloseTo(2 / 10);
});

test("health: an unserved kind makes its queue late", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { all } = await startWorker(stint, {
    pools: { notes: 2 },
    handlers: [handle(mail, () => undefined)],
  });
  const orphan = defineJob("orphan", { queue: "notes", payload: typed<object>() });
  const { id } = await stint.enqueue(orphan, {});
  await fresh.sql("update stint.job set run_at = run_at - interval '1 minute' where id = $1", [id]);
  await stint.enqueue(mail, {});
  await until(() => all("settled").length === 1, { message: "its neighbour ran" });

  const [notes] = (await inspect(stint).health()).queues;
  expect(notes).toMatchObject({ queue: "notes", drainMs: null });
  expect(notes!.breachInMs).toBeGreaterThan(200_000);
  expect(notes!.breachInMs).toBeLessThanOrEqual(240_000);
});

test("health: prefetched jobs are not counted in busy slots", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const held = gate();
  const { all } = await startWorker(stint, {
    pools: { notes: 2 },
    handlers: [handle(mail, () => held.opened)],
  });
  await stint.enqueue(mail, {});
  await stint.enqueue(mail, {});
  await until(() => all("began").length === 2, { message: "both slots run" });
  // As if two more had been claimed ahead.
  await stint.enqueue(mail, {}, { delay: "1h" });
  await stint.enqueue(mail, {}, { delay: "1h" });
  await fresh.sql(
    `update stint.job j set state = 'running', lease_id = r.lease_id, lease_until = r.lease_until, worker = r.worker, claimed_at = now()
     from (select * from stint.job where state = 'running' limit 1) r where j.state = 'scheduled'`,
  );
  await fresh.sql(`select stint.recount()`);

  const [notes] = (await inspect(stint).health()).queues;
  expect(notes).toMatchObject({ depth: { running: 4 }, slots: { busy: 2, total: 2, ahead: 2 } });
  held.open();
});

test("health: a queue has its own target, otherwise that of a pattern", async () => {
  const { fresh, stint } = await someLife();
  await fresh.sql(`update stint.job set run_at = now() - interval '4 min' where queue = 'slow'`);
  await stint.queueSettings.set("slow", { targetAge: "3m" }, { reason: "a promise to customers" });
  await stint.queueSettings.set("*", { targetAge: "1h" }, { reason: "no person waits for these" });
  const { queues } = await inspect(stint).health();

  expect(queues).toMatchObject([
    { queue: "slow", targetMs: 180_000, targetFrom: { source: "live", setFor: "slow" }, breachInMs: 0 },
    { queue: "notes", targetMs: 3_600_000, targetFrom: { source: "live", setFor: "*" } },
  ]);
});

test("kinds: the percentiles of each kind", async () => {
  const { inspector } = await someLife();
  const kinds = await inspector.kinds();

  expect(kinds).toMatchObject([
    { kind: "mail", queue: "notes", depth: { dead: 2 }, workers: 0, leaseAdvice: null },
    { kind: "report", queue: "slow", depth: { ready: 2 }, attemptsPerSuccess: null, run: { p50: null } },
  ]);
  // Four at the first attempt, one at the second.
  expect(kinds[0]!.attemptsPerSuccess).toBeCloseTo(6 / 5);
});

test("series: one point for every step of the selected queue and kind", async () => {
  const { inspector } = await someLife();
  const all = await inspector.series({});
  const notes = await inspector.series({ queue: "notes", range: "24h" });
  const none = await inspector.series({ kind: "unheard-of", range: "30d" });
  const sum = (points: typeof all.points): number =>
    points.reduce((count, point) => count + point.claimed, 0);

  expect(all).toMatchObject({ queue: null, kind: null, range: "1h", stepMs: 10_000 });
  expect(all.points).toHaveLength(360);
  const steps = all.points.map(({ at }, n) => at.getTime() - (all.points[n - 1]?.at.getTime() ?? 0)).slice(1);
  expect(new Set(steps)).toEqual(new Set([10_000]));
  expect([sum(all.points), sum(notes.points), sum(none.points)]).toEqual([10, 10, 0]);
  expect(all.points.findLast(({ ready }) => ready !== null)?.ready).toBe(2);
  expect(notes.points).toHaveLength(144);
  expect(none.points).toHaveLength(240);
  expect(none.points.every(({ ready, run }) => ready === null && run.p50 === null)).toBe(true);
  await expect(inspector.series({ range: "2h" as never })).rejects.toThrow(/series\.range/);
});

test("workers: the state that each worker last reported", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { opened, open } = gate();
  const { worker } = await startWorker(stint, {
    pools: { notes: 3 },
    handlers: [handle(mail, async () => await opened)],
  });
  await stint.enqueueMany([1, 2].map(() => ({ job: mail, payload: {} })));
  await until(() => worker.running === 2, { message: "both run" });
  const inspector = inspect(stint);
  await fresh.sql(`update stint.worker set vitals = null`);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('newer', 'h', 1, '99.0.1', '{"notes": 5}', '{mail}')`,
  );
  const silent = await inspector.workers();
  open();

  expect(silent).toMatchObject([
    { id: worker.id, busy: 0, slots: 3, waiting: 0, lagMs: null, rssBytes: null, behind: true },
    { id: "newer", slots: 5, behind: false },
  ]);
  expect(silent[0]!.heartbeatAgeMs).toBeGreaterThanOrEqual(0);
});

test("a worker reports its state at each flush and its counts before it stops", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { opened, open } = gate();
  const { worker } = await startWorker(stint, {
    pools: { notes: 3 },
    handlers: [handle(mail, async () => await opened)],
  });
  await stint.enqueue(mail, {});
  const inspector = inspect(stint);
  // The second heartbeat comes after ten seconds.
  const [view] = (await until(
    async () => {
      const views = await inspector.workers();
      return views[0]?.busy === 1 && views;
    },
    { message: "the worker has said that a slot is busy" },
  )) as Awaited<ReturnType<Inspector["workers"]>>;
  expect(view).toMatchObject({ slots: 3, waiting: 0 });
  expect(view!.rssBytes).toBeGreaterThan(1_000_000);
  expect(view!.lagMs).toBeGreaterThanOrEqual(0);
  open();
  await worker.stop();

  expect((await inspector.stats()).lastHour).toMatchObject({ claimed: 1, succeeded: 1 });
});

test("slow: a job beyond its kind's normal is reported once, counted and listed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql(`select stint.record_series($1)`, [
    JSON.stringify([{ queue: "notes", kind: "mail", run: [100], run_ms: 50 }]),
  ]);
  const { opened, open } = gate();
  const { worker, seen, all } = await startWorker(stint, {
    pools: { notes: 2, slow: 2 },
    handlers: [handle(mail, async () => await opened), handle(report, async () => await opened)],
  });
  const { id } = await stint.enqueue(mail, {});
  await stint.enqueue(report, {});
  const slow = await seen("slow");
  const listed = await inspect(stint).slow();
  open();
  await worker.stop();

  expect(slow).toMatchObject({ id, kind: "mail", queue: "notes", because: "beyond-normal" });
  expect(slow.p95Ms).toBeLessThanOrEqual(1);
  expect(slow.ms).toBeGreaterThanOrEqual(1_000);
  expect(all("slow")).toHaveLength(1);
  expect(worker.meter.of("notes", "mail").slow).toBe(1);
  expect(listed).toMatchObject([
    { id, kind: "mail", worker: worker.id, attempt: 1, because: "beyond-normal" },
  ]);
  expect(listed[0]!.text).toMatch(/^It has been running for .*; p95 for this kind is 1 ms\.$/);
});

test("slow: a job with an expired lease or near its timeout is listed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { opened, open } = gate();
  const { worker } = await startWorker(stint, {
    pools: { slow: 4 },
    rescueEvery: "1h",
    handlers: [handle(report, async () => await opened)],
  });
  const lost = await stint.enqueue(report, {});
  const late = await stint.enqueue(report, {});
  await stint.enqueue(report, {});
  await until(() => worker.running === 3, { message: "all run" });
  await fresh.sql(`update stint.job set claimed_at = now() - interval '50 min' where id = $1`, [late.id]);
  const inspector = inspect(stint);
  let listed: Awaited<ReturnType<Inspector["slow"]>> = [];
  // Its worker is live: it may renew the lease, or rescue the job and run it again, before the test reads it.
  await until(
    async () => {
      await expire(fresh, lost.id);
      listed = await inspector.slow();
      return listed.length === 2 && (await inspector.health()).slow === 2;
    },
    { message: "both are listed and counted" },
  );
  open();

  expect(listed.map(({ id, because }) => [id, because])).toEqual([
    [late.id, "near-timeout"],
    [lost.id, "near-lease"],
  ]);
  expect(listed.map(({ text }) => text)).toEqual([
    expect.stringMatching(/^It has been running for 50 min.* of the 1 h it may take\.$/),
    expect.stringMatching(/its lease ran out 1 h.* ago: its worker stopped responding\.$/),
  ]);
});

test("a worker flushes its counts before it goes to sleep", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { worker } = await startWorker(stint, {
    pools: { notes: 1 },
    sleep: "200ms",
    handlers: [handle(mail, () => undefined)],
  });
  await stint.waitFor(await stint.enqueue(mail, {}), { timeout: "60s" });
  await until(async () => (await stint.workers())[0]?.asleep === true, { message: "it sleeps" });

  expect((await inspect(stint).stats()).lastHour).toMatchObject({ claimed: 1, succeeded: 1 });
  await worker.stop();
  expect((await inspect(stint).stats()).lastHour).toMatchObject({ claimed: 1, succeeded: 1 });
});

test("an inspector ends with its client, and closing it twice is fine", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const inspector = stint.inspector();
  await inspector.health();
  await stint.close();

  await inspector.close();
  await expect(inspector.health()).rejects.toThrow(/pool after calling end/);
});

test("an unresponsive worker serves nothing; a sleeping worker does", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const inspector = inspect(stint);
  const { id } = await stint.enqueue(mail, {});
  await fresh.sql("update stint.job set run_at = run_at - interval '1 minute' where id = $1", [id]);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, '1.0.0', '{"notes": 5}', '{mail}')`,
  );
  const seen = async (silence: string, asleep = false) => {
    await fresh.sql(`update stint.worker set seen_at = now() - $1::interval, asleep = $2`, [silence, asleep]);
    const [health, kinds, workers] = await Promise.all([
      inspector.health(),
      inspector.kinds(),
      inspector.workers(),
    ]);
    const [queue] = health.queues;
    return {
      all: health.workers,
      queue: [queue?.workers, queue?.slots.total],
      unserved: health.unserved.map(({ kind }) => kind),
      kind: kinds[0]?.workers,
      listed: workers.length,
    };
  };

  const serves = { all: 1, queue: [1, 5], unserved: [], kind: 1, listed: 1 };
  expect(await seen("50 seconds")).toEqual(serves);
  expect(await seen("61 seconds")).toEqual({
    all: 0,
    queue: [0, 0],
    unserved: ["mail"],
    kind: 0,
    // The list continues showing it, as silent.
    listed: 1,
  });
  expect(await seen("10 minutes", true)).toEqual(serves);
});
