import { expect, test } from "vitest";
import { defineJob, entry, handle, typed, type PauseTarget } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { workerWithWaiting } from "../support/prefetch.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });
const other = defineJob("other", { queue: "second", payload: typed<object>() });
const because = { reason: "the provider is down" };

/** A worker for both kinds that writes down what ran. */
async function startPair(fresh: Fresh, options: { wake?: "none" } = {}) {
  const stint = fresh.client(options);
  const ran: string[] = [];
  await startWorker(stint, {
    pools: { default: 2, second: 2 },
    handlers: [handle(work, ({ id }) => void ran.push(id)), handle(other, ({ id }) => void ran.push(id))],
  });
  return { stint, ran };
}

async function stateOf(fresh: Fresh, id: string): Promise<unknown> {
  const [row] = await fresh.sql("select state, park_reason, attempts from stint.jobs where id = $1", [id]);
  return row;
}

const untouched = { state: "ready", park_reason: null, attempts: 0 };

const leftOut: PauseTarget[] = [{ queue: "default" }, { queue: "def*" }, { kind: "work" }, { kind: "w*" }];
for (const target of leftOut) {
  test(`jobs of a paused ${JSON.stringify(target)} stay ready until it is resumed`, async () => {
    const fresh = await freshSchema();
    const { stint, ran } = await startPair(fresh);
    await stint.pauses.pause(target, because);
    const { id } = await stint.enqueue(work, {});
    const { id: free } = await stint.enqueue(other, {});
    await until(() => ran.includes(free), { message: "the other one ran" });
    const { id: later } = await stint.enqueue(other, {});
    await until(() => ran.includes(later), { message: "another one ran" });
    expect(await stateOf(fresh, id)).toEqual(untouched);

    expect(await stint.pauses.resume(target, because)).toBe(true);
    await until(() => ran.includes(id), { message: "the paused one ran" });
  });
}

for (const [target, own] of [
  [{ tenant: "acme" }, { tenant: "acme" }],
  [{ key: "order:1" }, { key: "order:1" }],
] as const) {
  test(`jobs of a paused ${JSON.stringify(target)} are parked, and run after a resume`, async () => {
    const fresh = await freshSchema();
    const { stint, ran } = await startPair(fresh);
    await stint.pauses.pause(target, because);
    const { id } = await stint.enqueue(work, {}, own);
    await until(async () => ((await stateOf(fresh, id)) as { state: string }).state === "parked", {
      message: "it is parked",
    });
    expect(await stateOf(fresh, id)).toEqual({ state: "parked", park_reason: "paused", attempts: 0 });
    expect(await stint.pauses.list()).toMatchObject([{ parkedJobs: 1, reason: because.reason, until: null }]);
    expect((await stint.get(id))?.log).toEqual([]);
    await expect(stint.runNow(id)).rejects.toThrow("paused");

    await stint.pauses.resume(target, because);
    await until(() => ran.includes(id), { message: "it ran" });
    await until(async () => (await fresh.sql("select from stint.pause")).length === 0, {
      message: "the pause is forgotten",
    });
  });
}

test("a worker that starts while its queue is paused claims nothing", async () => {
  const fresh = await freshSchema();
  const before = fresh.client();
  await before.pauses.pause({ queue: "default" }, because);
  const { id } = await before.enqueue(work, {});
  const { stint, ran } = await startPair(fresh);
  const { id: free } = await stint.enqueue(other, {});
  await until(() => ran.includes(free), { message: "the other one ran" });

  expect(await stateOf(fresh, id)).toEqual(untouched);
  await before.pauses.resume({ queue: "default" }, because);
  await until(() => ran.includes(id), { message: "it ran" });
});

test("a pause of another process takes effect without notifications", async () => {
  const fresh = await freshSchema();
  const { stint, ran } = await startPair(fresh, { wake: "none" });
  await fresh.sql("select stint.pause('queue', 'default', 'from psql')");
  const known = async (): Promise<boolean> => {
    const { id } = await stint.enqueue(work, {});
    const { id: free } = await stint.enqueue(other, {});
    await until(() => ran.includes(free), { message: "the other one ran" });
    return !ran.includes(id);
  };
  await until(known, { message: "the worker knows of the pause" });
  await fresh.sql("select stint.resume('queue', 'default', 'from psql')");
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "all have run",
  });
  expect(await stint.pauses.list()).toEqual([]);
});

test("jobs that were claimed ahead go back when their queue is paused", async () => {
  const fresh = await freshSchema();
  const { waiting, finish, holding, worker } = await workerWithWaiting(fresh);
  const stint = fresh.client();
  const ids = waiting();
  await stint.pauses.pause({ queue: "default" }, because);
  await until(
    async () =>
      (
        await fresh.sql("select from stint.job where id = any ($1) and state = 'ready' and attempts = 0", [
          ids,
        ])
      ).length === ids.length,
    { message: "they are ready again" },
  );
  expect(worker.running).toBe(holding.length);

  finish();
  await until(() => worker.running === 0, { message: "the running ones have finished" });
  expect(
    await fresh.sql("select from stint.job where id = any ($1) and state = 'ready'", [ids]),
  ).toHaveLength(ids.length);
});

for (const target of [{ queue: "default" }, { kind: "work" }, { tenant: "acme" }, { key: "order:1" }]) {
  test(`a pause of ${JSON.stringify(target)} releases jobs that gather in a batch`, async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const ran: string[] = [];
    await startWorker(stint, {
      handlers: [
        handle(
          work,
          { batch: { size: 2, wait: "10m" } },
          (items) => void ran.push(...items.map(({ id }) => id)),
        ),
      ],
    });
    const job = { tenant: "acme", key: "order:1" };
    const { id } = await stint.enqueue(work, {}, job);
    await until(async () => (await stint.get(id))?.state === "running", { message: "it gathers" });
    await stint.pauses.pause(target, because);
    const wanted = "tenant" in target || "key" in target ? "parked" : "ready";
    await until(async () => (await stint.get(id))?.state === wanted, { message: `it is ${wanted}` });
    expect(await stateOf(fresh, id)).toMatchObject({ attempts: 0 });
    expect(ran).toEqual([]);

    await stint.pauses.resume(target, because);
    const { id: second } = await stint.enqueue(work, {}, job);
    await until(() => ran.length === 2, { message: "the batch ran" });
    expect([...ran].sort()).toEqual([id, second].sort());
  });
}

test("a running job of a paused tenant finishes", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const started = gate();
  const end = gate();
  const { all } = await startWorker(stint, {
    handlers: [
      handle(work, async () => {
        started.open();
        await end.opened;
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {}, { tenant: "acme" });
  await started.opened;
  await stint.pauses.pause({ tenant: "acme" }, because);
  end.open();
  await until(() => all("settled").length === 1, { message: "it is settled" });
  expect(await stint.get(id)).toMatchObject({ state: "succeeded" });
});

test("a pause with an end ends by itself, also for parked jobs", async () => {
  const fresh = await freshSchema();
  const { stint, ran } = await startPair(fresh);
  const shortly = { ...because, for: 1_500 };
  await stint.pauses.pause({ tenant: "acme" }, shortly);
  await stint.pauses.pause({ queue: "default" }, shortly);
  const jobs = await stint.enqueueMany([
    entry(work, {}),
    entry(other, {}, { tenant: "acme" }),
    entry(work, {}, { tenant: "acme" }),
  ]);
  await until(() => jobs.every(({ id }) => ran.includes(id)), { message: "all have run" });
  expect(await stint.pauses.list()).toEqual([]);
});

test("a sleeping worker wakes up for a resume", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  await stint.pauses.pause({ queue: "default" }, because);
  await startWorker(stint, { sleep: "200ms", handlers: [handle(work, ({ id }) => void ran.push(id))] });
  await until(async () => (await fresh.sql("select from stint.worker where asleep")).length === 1, {
    message: "the worker sleeps",
  });
  const { id } = await fresh.client().enqueue(work, {});
  await fresh.sql("select stint.resume('queue', 'default', 'from psql')");
  await until(() => ran.includes(id), { message: "it ran" });
  expect(ran).toEqual([id]);
});

test("a replacement reaches a job of a paused tenant, which runs once and no earlier", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const sync = defineJob("sync", { payload: typed<{ n: number }>() });
  const ran: number[] = [];
  await startWorker(stint, { handlers: [handle(sync, ({ payload }) => void ran.push(payload.n))] });
  await stint.pauses.pause({ tenant: "acme" }, because);
  const shaped = { tenant: "acme", debounce: { key: "k", wait: "1ms" } };
  const { id } = await stint.enqueue(sync, { n: 1 }, shaped);
  await until(async () => ((await stateOf(fresh, id)) as { state: string }).state === "parked", {
    message: "it is parked",
  });

  const again = await stint.enqueue(sync, { n: 2 }, { ...shaped, debounce: { key: "k", wait: "1h" } });
  expect(again).toMatchObject({ id, status: "deferred" });
  await stint.pauses.resume({ tenant: "acme" }, because);
  await until(async () => ((await stateOf(fresh, id)) as { state: string }).state === "scheduled", {
    message: "it waits for its time",
  });
  expect(await fresh.sql("select scheduled::int, parked::int from stint.depth where kind = 'sync'")).toEqual([
    { scheduled: 1, parked: 0 },
  ]);
  await stint.runNow(id);
  await until(() => ran.length > 0, { message: "it ran" });
  expect(ran).toEqual([2]);
  expect(await fresh.sql("select id from stint.jobs")).toEqual([{ id }]);
});
