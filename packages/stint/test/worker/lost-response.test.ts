import { expect, test } from "vitest";
import { defineJob, handle, steps, typed } from "#stint/index.js";
import { commitOfHandler, startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema } from "../support/fresh.ts";
import { noteTable } from "../support/note-table.ts";
import { until } from "../support/until.ts";
import { gate } from "../support/gate.ts";
import { abortOf, startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), backoff: steps(0) });

test("a lost response to a commit: complete() finds the commit, written once", async () => {
  const fresh = await freshSchema();
  const table = await noteTable(fresh, "job uuid");
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const swallowed = gate<{ cut: Promise<void> }>();
  const { seen, all } = await startWorker(stint, {
    handlers: [
      handle(work, async ({ id, complete }) => {
        await complete(async (tx) => {
          await tx.query(`insert into ${table} values ($1)`, [id]);
          swallowed.open({ cut: proxy.cutAt(commitOfHandler, "unanswered") });
        });
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});
  await (
    await swallowed.opened
  ).cut;

  expect(await seen("settled")).toMatchObject({ id, outcome: "succeeded", attempt: 1 });
  expect(all("leaseLost")).toEqual([]);
  expect(await fresh.sql(`select job from ${table}`)).toEqual([{ job: id }]);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, epoch: 1 });
});

test.each([
  ["succeed", "succeeded"],
  ["finish", "succeeded"],
  ["requeue", "failed"],
] as const)("a lost response to a settle (%s): the outcome stands", async (name, outcome) => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const swallowed = gate<{ cut: Promise<void> }>();
  const { seen, all } = await startWorker(stint, {
    handlers: [
      handle(work, ({ attempt }) => {
        if (attempt > 1) return undefined;
        swallowed.open({ cut: proxy.cutAt(`/* stint:${name} */`, "unanswered") });
        if (outcome === "failed") throw new Error("broken");
        // With a result it takes the longer way.
        return name === "finish" ? "a result" : undefined;
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});
  await (
    await swallowed.opened
  ).cut;

  // The next attempt may well be settled before this one is known to be.
  expect(await seen("settled", ({ attempt }) => attempt === 1)).toMatchObject({ id, outcome });
  await stint.waitFor(id, { timeout: "60s" });
  expect(all("leaseLost")).toEqual([]);
  expect(await stint.get(id)).toMatchObject({
    state: "succeeded",
    crashes: 0,
    epoch: outcome === "failed" ? 2 : 1,
  });
});

test("a lost response to a claim: the worker finds its jobs, no crash counts", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false, wake: "none" });
  const { id } = await fresh.client().enqueue(work, {});
  const swallowed = proxy.cutAt("/* stint:claim */", "unanswered");
  const runs: number[] = [];
  const { all } = await startWorker(stint, {
    handlers: [handle(work, ({ fence }) => void runs.push(fence.epoch))],
  });
  await swallowed;
  await stint.waitFor(id, { timeout: "60s" });

  expect(runs).toEqual([1]);
  expect(all("settled")).toHaveLength(1);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
});

test("a job of a lost claim does not begin after its worker was stopped", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const limited = defineJob("limited", { payload: typed<object>(), limits: [{ max: 1 }] });
  const ran: string[] = [];
  const worker = stint.worker({
    pools: { default: 2 },
    signals: false,
    handlers: [handle(limited, ({ id }) => void ran.push(id))],
  });
  await fresh.client().enqueue(limited, {});
  const cut = proxy.cutAt("stint:claim */", "unanswered");
  const placing = proxy.holdAt("stint:take-places */");
  await worker.start();
  await cut;
  const places = await placing;
  await worker.stop({ drain: 0, abort: 0 });
  await places.release();
  // The response has been read by the time of the next one.
  await stint.queues();
  expect(ran).toEqual([]);
});

test("unfinished jobs are released though the connection breaks meanwhile", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const { worker, seen } = await startWorker(stint, {
    handlers: [handle(work, () => new Promise<void>(() => undefined))],
  });
  const { id } = await fresh.client().enqueue(work, {});
  await seen("claimed");
  const cut = proxy.cutAt("/* stint:requeue */", "unsent");
  const report = await worker.stop({ drain: 0, abort: 0 });
  await cut;

  expect(report).toMatchObject({ released: 1 });
  expect(await fresh.client().get(id)).toMatchObject({ state: "ready", attempts: 0, crashes: 0 });
});

test("an outage longer than the lease counts no crash", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const client = () => fresh.client({ database: proxy.url });
  const untilTold = {
    lease: "5s",
    handlers: [
      handle(work, async ({ signal }) => {
        throw await abortOf(signal);
      }),
    ],
  };
  const first = await startWorker(client(), untilTold);
  await startWorker(client(), untilTold);
  const { id } = await fresh.client().enqueue(work, {});
  await until(async () => (await fresh.client().get(id))?.state === "running", { message: "it runs" });
  proxy.down();
  await until(async () => (await fresh.sql(`select from stint.job where lease_until < now()`)).length === 1, {
    message: "its lease has run out",
  });
  proxy.up();
  // Either its holder renewed in time, or released it and another worker claimed it.
  const held = `select crashes from stint.job where state = 'running' and lease_until > now()`;
  await until(async () => (await fresh.sql(held)).length === 1, { message: "another worker holds it" });

  expect(await fresh.client().get(id)).toMatchObject({ crashes: 0 });
  expect(first.all("rescued")).toEqual([]);
});
