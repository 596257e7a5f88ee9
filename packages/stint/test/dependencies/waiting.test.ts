import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { Db } from "#stint/db/db.js";
import { defineDependency, defineJob, entry, handle, silentLogger, typed } from "#stint/index.js";
import { dependencies } from "#stint/upkeep/dependencies.js";
import { Tokens } from "#stint/worker/tokens.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { stopAll } from "../support/two-workers.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

// A busy machine may stop this process for more than a second between a take and the start. late.test.ts is about that.
beforeEach(() => void vi.spyOn(Tokens.prototype, "isStale").mockReturnValue(false));
afterEach(() => void vi.restoreAllMocks());

async function parked(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ count: number }>(
    `select count(*)::integer as count from stint.job where state = 'parked' and park_reason = 'limit'`,
  );
  return row!.count;
}

/** As if this much time had passed for the bucket. */
async function refill(fresh: Fresh, time: string): Promise<void> {
  await fresh.sql(
    `update stint.dependency set credit_at = credit_at - $1::interval, next_at = next_at - $1::interval`,
    [time],
  );
  await fresh.sql(`select stint.wake(array['dependencies'])`);
}

test("jobs that wait for tokens start in the order of priority and age", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 1, per: "1h", burst: 1 } });
  const call = defineJob("call", { payload: typed<string>(), uses: [api] });
  const ran: string[] = [];
  const worker = stint.worker({
    pools: { default: 10 },
    handlers: [handle(call, ({ payload }) => void ran.push(payload))],
  });
  await worker.start();
  await stint.enqueue(call, "first");
  await until(() => ran.length === 1, { message: "the first takes the only token" });
  for (const name of ["old", "older"]) await stint.enqueue(call, name, { priority: 5 });
  const { id: raised } = await stint.enqueue(call, "raised", { priority: 9 });
  await until(async () => (await parked(fresh)) === 3, { message: "three wait" });
  await stint.enqueue(call, "urgent", { priority: 1 });
  await until(async () => (await parked(fresh)) === 4, { message: "four wait" });
  await stint.change(raised, { priority: 0 }, { reason: "test" });
  for (let count = 2; count <= 5; count++) {
    await refill(fresh, "1 hour");
    await until(() => ran.length === count, { message: `${count} have run` });
  }
  await worker.stop();

  expect(ran).toEqual(["first", "raised", "urgent", "old", "older"]);
  const [row] = await fresh.sql(
    `select max(attempts) as attempts, max(interruptions) as interruptions from stint.jobs`,
  );
  expect(row).toEqual({ attempts: 1, interruptions: 0 });
});

test("an empty bucket does not hold up the other jobs of a queue", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 1, per: "1h", burst: 1 } });
  const call = defineJob("call", { payload: typed<null>(), uses: [api] });
  const plain = defineJob("plain", { payload: typed<null>() });
  await stint.enqueueMany(Array.from({ length: 1_200 }, () => entry(call, null)));
  const { id } = await stint.enqueue(plain, null);
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(call, () => undefined), handle(plain, () => undefined)],
  });
  await worker.start();
  await until(async () => (await stint.get(id))?.state === "succeeded", { message: "the plain job has run" });
  await until(async () => (await parked(fresh)) === 1_199, { message: "all others wait" });
  await worker.stop();

  // Whole stretches of the queue are parked at once, and not one job for each claim.
  const [row] = await fresh.sql<{ claims: number }>(`select sum(epoch)::integer as claims from stint.job`);
  expect(row!.claims).toBeLessThan(60);
  expect(await stint.dependencies.get("api")).toMatchObject({ waiting: 1_199, tokens: 0, kinds: ["call"] });
});

test("a job takes its cost, and a cheaper one does not pass it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 10, per: "1h", burst: 10 } });
  const call = defineJob("call", {
    payload: typed<number>(),
    uses: [{ dependency: api, cost: (tokens) => tokens }],
  });
  const ran: number[] = [];
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(call, ({ payload }) => void ran.push(payload))],
  });
  await worker.start();
  await stint.enqueue(call, 6);
  await until(() => ran.length === 1, { message: "the first takes six" });
  expect(await stint.dependencies.get("api")).toMatchObject({ tokens: 4 });
  await stint.enqueue(call, 5);
  await until(async () => (await parked(fresh)) === 1, { message: "five are too many" });
  await stint.enqueue(call, 1);
  await until(async () => (await parked(fresh)) === 2, { message: "one would be there, but does not pass" });
  await stint.enqueue(call, 0);
  await until(() => ran.length === 2, { message: "a job without a cost runs" });
  await refill(fresh, "1 hour");
  await until(() => ran.length === 4, { message: "all have run" });
  await worker.stop();

  expect(ran).toEqual([6, 0, 5, 1]);
});

test("a cancelled job keeps no tokens from those that wait behind it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 1, per: "1h", burst: 9 } });
  const call = defineJob("call", {
    payload: typed<number>(),
    uses: [{ dependency: api, cost: (payload) => payload }],
  });
  const ran: number[] = [];
  const { worker } = await startWorker(stint, {
    handlers: [handle(call, ({ payload }) => void ran.push(payload))],
  });
  await stint.enqueue(call, 5);
  await until(() => ran.length === 1, { message: "four tokens are left" });
  const { id } = await stint.enqueue(call, 9);
  await until(async () => (await parked(fresh)) === 1, { message: "it waits for nine" });
  await stint.enqueue(call, 4);
  await until(async () => (await parked(fresh)) === 2, { message: "the next one waits behind it" });
  await stint.cancel(id, { reason: "test" });
  // Upkeep looks at the waiting jobs again soon, although the first one had hours to wait.
  const [look] = await fresh.sql(
    `select next_at < clock_timestamp() + interval '5 seconds' as soon from stint.dependency`,
  );
  expect(look).toEqual({ soon: true });
  await fresh.sql(`update stint.dependency set next_at = clock_timestamp()`);
  await fresh.sql(`select stint.wake(array['dependencies'])`);
  await until(() => ran.length === 2, { message: "the next one runs" });
  await worker.stop();
  expect(ran).toEqual([5, 4]);
});

test("a job that a lowered burst can never pay for holds up no other job", async () => {
  const fresh = await freshSchema();
  const rate = { limit: 1_000_000, per: "1s" };
  const api = defineDependency("api", { rate: { ...rate, burst: 100 } });
  const call = defineJob("call", {
    payload: typed<number>(),
    uses: [{ dependency: api, cost: (tokens) => tokens }],
  });
  const stint = fresh.client();
  const ran: number[] = [];
  const { worker } = await startWorker(stint, {
    handlers: [handle(call, ({ payload }) => void ran.push(payload))],
  });
  const reason = "another plan";
  await stint.pauses.pause({ dependency: "api" }, { reason });
  await stint.enqueueMany([50, ...Array.from({ length: 20 }, () => 1)].map((cost) => entry(call, cost)));
  await stint.dependencies.set("api", { rate: { ...rate, burst: 10 } }, { reason });
  await stint.pauses.resume({ dependency: "api" }, { reason });
  await until(() => ran.length === 20, { message: "the others have run" });
  await until(async () => (await parked(fresh)) === 1, { message: "the expensive one waits" });

  await stint.dependencies.set("api", { rate: { ...rate, burst: 50 } }, { reason });
  await until(() => ran.length === 21, { message: "it runs with a larger burst" });
  await worker.stop();
  expect(ran.at(-1)).toBe(50);
});

test("jobs of a kind that uses a dependency no more do not wait for it", async () => {
  const fresh = await freshSchema();
  const api = defineDependency("api", { quota: { limit: 1, per: "month" } });
  const before = defineJob("call", { payload: typed<null>(), uses: [api] });
  const other = defineJob("other", { payload: typed<null>(), uses: [api] });
  const stint = fresh.client();
  const { worker } = await startWorker(stint, {
    handlers: [handle(before, () => undefined), handle(other, () => undefined)],
  });
  await stint.enqueue(other, null);
  await until(async () => (await stint.dependencies.get("api"))?.quotaLeft === 0, { message: "it is spent" });
  await stint.enqueueMany([entry(before, null), entry(before, null), entry(other, null)]);
  await until(async () => (await parked(fresh)) === 3, { message: "three wait" });
  await worker.stop();

  const after = defineJob("call", { payload: typed<null>() });
  const ran: string[] = [];
  await startWorker(fresh.client(), { handlers: [handle(after, ({ id }) => void ran.push(id))] });
  await until(() => ran.length === 2, { message: "those of the changed kind have run" });
  expect(await parked(fresh)).toBe(1);
  expect(await stint.dependencies.get("api")).toMatchObject({ kinds: ["other"], waiting: 1 });
});

test("minutes and hours of a quota end in real time where clocks repeat an hour", async () => {
  const fresh = await freshSchema();
  for (const per of ["minute", "hour"]) {
    const [row] = await fresh.sql<{ seconds: number }>(
      `select extract(epoch from stint.quota_end(d, t.at) - t.at)::integer as seconds
       from (select '2026-10-25 00:30:00+00'::timestamptz as at) t,
         jsonb_populate_record(null::stint.dependency, $1) d`,
      [JSON.stringify({ name: "api", settings: { quota: { limit: 1, per, zone: "Europe/Berlin" } } })],
    );
    expect(row!.seconds).toBe(per === "minute" ? 60 : 1_800);
  }
});

test("a job that uses two dependencies waits until both allow it", async () => {
  const fresh = await freshSchema();
  const one = defineDependency("one", { rate: { limit: 1, per: "1h", burst: 1 } });
  const two = defineDependency("two", { quota: { limit: 1, per: "month", zone: "Asia/Kolkata" } });
  const stint = fresh.client({ dependencies: [two] });
  const both = defineJob("both", { payload: typed<number>(), uses: [one, "two"] });
  const ran: number[] = [];
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(both, ({ payload }) => void ran.push(payload))],
  });
  await worker.start();
  await stint.enqueue(both, 1);
  await until(() => ran.length === 1, { message: "the first runs" });
  await stint.enqueue(both, 2);
  await until(async () => (await parked(fresh)) === 1, { message: "the second waits" });
  await refill(fresh, "1 hour");
  await until(async () => (await stint.dependencies.get("two"))?.waiting === 1, {
    message: "it waits for the other one now",
  });
  expect(await stint.dependencies.get("one")).toMatchObject({ tokens: 1, waiting: 0 });
  await stint.dependencies.set("two", { quota: { limit: 2, per: "month" } }, { reason: "bought more" });
  await until(() => ran.length === 2, { message: "both allow it" });
  await worker.stop();

  expect(await stint.dependencies.get("two")).toMatchObject({ quotaLeft: 0, waiting: 0 });
});

test("a quota starts anew with its window", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { quota: { limit: 2, per: "month" } });
  const call = defineJob("call", { payload: typed<null>(), uses: [api] });
  let ran = 0;
  const worker = stint.worker({ pools: { default: 4 }, handlers: [handle(call, () => void ran++)] });
  await worker.start();
  await stint.enqueueMany(Array.from({ length: 4 }, () => entry(call, null)));
  await until(async () => (await parked(fresh)) === 2, { message: "two wait" });
  expect(ran).toBe(2);
  const waiting = await stint.dependencies.get("api");
  expect(waiting).toMatchObject({ quotaLeft: 0, waiting: 2 });
  expect(waiting!.nextAt).toEqual(waiting!.quotaResetsAt);
  await fresh.sql(
    `update stint.dependency set quota_from = quota_from - interval '1 month', next_at = clock_timestamp()`,
  );
  await fresh.sql(`select stint.wake(array['dependencies'])`);
  await until(() => ran === 4, { message: "the new window has room" });
  await worker.stop();
});

test("no more jobs use a dependency at once than it allows, also those SQL enqueued", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { concurrency: 3 });
  const jobs = ["a", "b"].map((kind) => defineJob(kind, { payload: typed<null>(), uses: [api] }));
  const hold = gate();
  let running = 0;
  let most = 0;
  const run = async (): Promise<void> => {
    most = Math.max(most, ++running);
    await hold.opened;
    running--;
  };
  const workers = [1, 2].map(() =>
    stint.worker({ pools: { default: 8 }, handlers: jobs.map((job) => handle(job, run)) }),
  );
  await Promise.all(workers.map((worker) => worker.start()));
  for (let n = 0; n < 8; n++)
    if (n % 2 === 0) await stint.enqueue(jobs[n % 4 === 0 ? 0 : 1]!, null);
    else await fresh.sql(`select stint.enqueue('a', 'null')`);
  await until(async () => (await parked(fresh)) === 5, { message: "five wait" });
  expect(await stint.dependencies.get("api")).toMatchObject({
    effectiveConcurrency: 3,
    running: 3,
    waiting: 5,
    kinds: ["a", "b"],
  });
  await stint.dependencies.set("api", { concurrency: 4 }, { reason: "they allow more" });
  await until(() => running === 4, { message: "one more runs" });
  hold.open();
  await until(
    async () => (await stint.queues()).every(({ running: now, parked: held }) => now + held === 0),
    {
      message: "all have run",
    },
  );
  await stopAll(workers);

  expect(most).toBe(4);
});

test("a job whose cost cannot be computed fails and does not run", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const call = defineJob("call", {
    payload: typed<{ tokens?: number }>(),
    attempts: 1,
    uses: [{ dependency: defineDependency("api", { concurrency: 3 }), cost: ({ tokens }) => tokens! }],
  });
  let ran = 0;
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handle(call, () => void ran++)] });
  await worker.start();
  const [row] = await fresh.sql<{ id: string }>(`select stint.enqueue('call', '{}')::text as id`);
  const job = await until(
    async () => {
      const found = await stint.get(row!.id);
      return found?.state === "dead" ? found : undefined;
    },
    { message: "it is dead" },
  );
  await worker.stop();

  expect(ran).toBe(0);
  expect(job!.log[0]).toMatchObject({ outcome: "failed", error: { class: "InvalidPayloadError" } });
});

test("a job that begins to wait while upkeep looks for such jobs is not forgotten", async () => {
  const fresh = await freshSchema();
  const responded = gate();
  let looks = 0;
  // The responses are read late.
  const run: Db["run"] = async (...sent) => {
    const rows = await fresh.db.run(...sent);
    looks += 1;
    await responded.opened;
    return rows;
  };
  const db = { run } as Db;
  const { service, onWake } = dependencies.create({ db, logger: silentLogger, onReady: () => undefined });
  service.start();
  onTestFinished(() => service.stop());
  onWake?.();
  await until(() => looks === 1, { message: "it has looked" });
  // The worker has parked a job since then.
  onWake?.();
  responded.open();
  await expect.poll(() => looks, { timeout: 60_000 }).toBe(2);
});
