/** Statements of workers that come late: a claim before the pauses are read, and a park after the job went on elsewhere. */
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed, type Stint } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { holdClaims } from "../support/hold-claims.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { expireLeases } from "../support/worker-process.ts";

const work = defineJob("work", { payload: typed<object>() });
const limited = defineJob("limited", { payload: typed<object>(), limits: [{ max: 1_000 }] });
const why = { reason: "test" };

/** A worker may claim and release it several times until it has read the pauses. */
async function untilReleased(stint: Stint, id: string): Promise<void> {
  await until(
    async () => {
      const job = await stint.get(id);
      return job !== undefined && job.state === "ready" && job.epoch >= 1 && job.attempts === 0;
    },
    { message: "it was released, with nothing spent" },
  );
}

test("a claim that returns before its worker has read new pauses starts nothing", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const admin = await adminClient(fresh.url);
  onTestFinished(() => admin.end());
  const held = await holdClaims(fresh, admin);
  const ran: string[] = [];
  await startWorker(fresh.client({ database: proxy.url, prepare: false }), {
    handlers: [handle(work, ({ id }) => void ran.push(id))],
  });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {});
  const waiting = `select from pg_locks l join pg_stat_activity a using (pid)
    where l.locktype = 'advisory' and not l.granted and a.query like '%stint:claim%' and a.query like '%' || $1 || '%'`;
  await until(async () => (await fresh.sql(waiting, [fresh.schema])).length > 0, {
    message: "a claim waits",
  });

  const reading = proxy.holdAt("stint:known-pauses");
  await stint.pauses.pause({ queue: "default" }, why);
  const read = await reading;
  await held.release();
  await untilReleased(stint, id);
  await read.release();
  await untilReleased(stint, id);
  expect(ran).toEqual([]);
  await stint.pauses.resume({ queue: "default" }, why);
  await until(() => ran.includes(id), { message: "it ran" });
});

test("a pause during a claim in the share of a limit holds the claimed jobs", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const ran: string[] = [];
  await startWorker(fresh.client({ database: proxy.url, prepare: false }), {
    handlers: [handle(limited, ({ id }) => void ran.push(id))],
  });
  const stint = fresh.client();
  const { id: first } = await stint.enqueue(limited, {});
  await stint.waitFor(first, { timeout: "60s" });
  expect(await fresh.sql("select name from stint.limit_share")).toEqual([{ name: "kind:limited" }]);

  const admin = await adminClient(fresh.url);
  onTestFinished(() => admin.end());
  const held = await holdClaims(fresh, admin);
  const { id } = await stint.enqueue(limited, {}, { tenant: "acme" });
  const waiting = `select from pg_locks l join pg_stat_activity a using (pid)
    where l.locktype = 'advisory' and not l.granted and a.query like '%stint:claim-%shares%' and a.query like '%' || $1 || '%'`;
  await until(async () => (await fresh.sql(waiting, [fresh.schema])).length > 0, {
    message: "a claim in shares waits",
  });
  const reading = proxy.holdAt("stint:known-pauses");
  await stint.pauses.pause({ tenant: "acme" }, why);
  const read = await reading;
  await held.release();
  await untilReleased(stint, id);
  await read.release();
  await until(async () => (await stint.get(id))?.state === "parked", { message: "the pause holds it" });
  expect(ran).toEqual([first]);
  await stint.pauses.resume({ tenant: "acme" }, why);
  await until(() => ran.includes(id), { message: "it ran" });
  expect(await stint.get(id)).toMatchObject({ attempts: 1, crashes: 0 });
});

test("a pause while a worker asks for a share of a limit holds the claimed jobs", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const ran: string[] = [];
  const { all } = await startWorker(fresh.client({ database: proxy.url, prepare: false }), {
    handlers: [handle(limited, ({ id }) => void ran.push(id))],
  });
  const stint = fresh.client();
  const asking = proxy.holdAt("stint:take-share");
  const { id } = await stint.enqueue(limited, {}, { tenant: "acme" });
  const ask = await asking;
  const reads = proxy.count("stint:known-pauses");
  await stint.pauses.pause({ tenant: "acme" }, why);
  await until(() => proxy.count("stint:known-pauses") > reads, { message: "the pauses are read" });
  await ask.release();
  await until(async () => (await stint.get(id))?.state === "parked", { message: "the pause holds it" });
  expect([ran, all("began")]).toEqual([[], []]);
  await stint.pauses.resume({ tenant: "acme" }, why);
  await until(() => ran.includes(id), { message: "it ran" });
  expect(await stint.get(id)).toMatchObject({ attempts: 1, crashes: 0 });
});

test("a park that comes after the job was resumed and ran elsewhere changes nothing", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client();
  await stint.pauses.pause({ tenant: "acme" }, why);
  const parking = proxy.holdAt("stint:hold-paused");
  await startWorker(fresh.client({ database: proxy.url, prepare: false, wake: "none" }), {
    lease: "1h",
    handlers: [handle(work, () => undefined)],
  });
  const { id } = await stint.enqueue(work, {}, { tenant: "acme" });
  const park = await parking;
  await stint.pauses.resume({ tenant: "acme" }, why);
  await expireLeases(fresh);
  await startWorker(fresh.client(), {
    lease: "1h",
    rescueEvery: 300,
    handlers: [handle(work, () => undefined)],
  });
  await stint.waitFor(id, { timeout: "60s" });
  await park.release();

  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 1 });
  expect(await fresh.sql("select from stint.paused_job")).toEqual([]);
  await until(async () => (await fresh.sql("select from stint.pause")).length === 0, {
    message: "the pause is forgotten",
  });
});
