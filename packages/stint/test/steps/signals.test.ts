import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { deliver, receiveSignal, sendSignalOnce } from "#stint/sql/signals.js";
import { writeStepResults } from "#stint/sql/steps.js";
import { suspend, type Suspend } from "#stint/sql/suspend.js";
import { settledByOwner } from "#stint/sql/settled.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { rescue } from "#stint/sql/rescue.js";
import type { Fence } from "#stint/model/job.js";
import { forSchema } from "#stint/db/statement.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { addOne, auditInfo, expire, running, stored, take, wrongFences } from "../sql/jobs.ts";

const forGo = (fence: Fence, until: number | null = null): Suspend => ({
  fence,
  seq: 1,
  name: "signal go",
  awaits: "go",
  until,
});

async function send(fresh: Fresh, target: string, name = "go", payload: unknown = 1): Promise<string> {
  const row = { id: newId(), target, kind: null, name, payload: JSON.stringify(payload), sender: "tester" };
  return (await sendSignalOnce(fresh.db, row, false, Date.now() + 3_600_000)).status;
}

/** A connection of the test's own, for transactions that stay open. */
async function session(
  fresh: Fresh,
): Promise<{ run: (text: string, values?: unknown[]) => Promise<unknown[]> }> {
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(async () => await client.end());
  return {
    run: async (text, values) =>
      (await client.query<Record<string, unknown>>(forSchema(text, fresh.schema), values)).rows,
  };
}

test("a signal committed while the wait is being recorded is not missed", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const other = await session(fresh);
  await other.run("begin");
  await other.run(`select stint.signal($1, 'go', '"in time"')`, [fence.job]);
  // The transaction of the signal is open: neither side can see the other.
  await suspend(fresh.db, [forGo(fence)]);
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "parked", park_reason: "signal" });
  await other.run("commit");

  expect(await deliver(fresh.db, 10)).toEqual({ found: 1, delivered: 1, queues: ["main"] });
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "ready", park_reason: null });
});

test("a wait recorded after its signal was delivered makes the job ready at once", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await send(fresh, fence.job);
  await deliver(fresh.db, 10);

  await suspend(fresh.db, [forGo(fence)]);

  expect(await stored(fresh, fence.job)).toMatchObject({ state: "ready", attempts: 0, log: null });
});

test("an open transaction that sent a signal holds up neither settles nor renewals", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const other = await session(fresh);
  await other.run("begin");
  await other.run(`select stint.signal($1, 'go')`, [fence.job]);

  expect(await suspend(fresh.db, [forGo(fence)])).toEqual(new Set([fence]));
  await runNow(fresh.db, fence.job, auditInfo());
  expect(await cancel(fresh.db, fence.job, auditInfo())).toBe("waiting");
  await other.run("rollback");
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
});

test("a delivery never waits for a locked job, and finds it the next time", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await suspend(fresh.db, [forGo(fence)]);
  await send(fresh, fence.job);
  const other = await session(fresh);
  await other.run("begin");
  await other.run(`select from stint.job where id = $1 for update`, [fence.job]);

  expect(await deliver(fresh.db, 10)).toEqual({ found: 1, delivered: 0, queues: [] });
  await other.run("commit");
  expect(await deliver(fresh.db, 10)).toMatchObject({ delivered: 1, queues: ["main"] });
});

test("a signal of another name leaves a waiting job parked and is received later", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await suspend(fresh.db, [forGo(fence)]);
  await send(fresh, fence.job, "stop", "later");
  await deliver(fresh.db, 10);
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "parked", reason: "waits for signal go" });

  await send(fresh, fence.job, "go", "now");
  await deliver(fresh.db, 10);
  const [job] = await take(fresh.db);
  const wait = (seq: number, signal: string): Parameters<typeof receiveSignal>[2] => ({
    seq,
    step: `signal ${signal}`,
    signal,
  });
  expect(await receiveSignal(fresh.db, job!.fence, wait(1, "go"))).toEqual({
    outcome: "received",
    payload: "now",
  });
  // A repeat after a lost response is the same signal.
  await send(fresh, fence.job, "go", "another");
  expect(await receiveSignal(fresh.db, job!.fence, wait(1, "go"))).toEqual({
    outcome: "received",
    payload: "now",
  });
  expect(await receiveSignal(fresh.db, job!.fence, wait(2, "stop"))).toMatchObject({ payload: "later" });
  expect(await receiveSignal(fresh.db, job!.fence, wait(3, "other"))).toMatchObject({ outcome: "none" });
});

test("signals, steps and waits of a stale fence change nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await send(fresh, fence.job);
  for (const wrong of wrongFences(fence)) {
    expect((await suspend(fresh.db, [forGo(wrong)])).size).toBe(0);
    const wait = { seq: 1, step: "signal go", signal: "go" };
    expect(await receiveSignal(fresh.db, wrong, wait)).toMatchObject({ outcome: "lost" });
    const step = { fence: wrong, seq: 1, name: "a", result: "1", tookMs: 1 };
    expect(await writeStepResults(fresh.db, [step])).toEqual(["lost"]);
  }
  expect(await fresh.sql(`select from stint.step`)).toEqual([]);
  expect(await fresh.sql(`select from stint.signal`)).toHaveLength(1);
});

test("a step whose job is locked waits, and a rescue cannot pass it unseen", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const step = { fence, seq: 1, name: "a", result: "1", tookMs: 1 };
  const other = await session(fresh);
  await other.run("begin");
  await other.run(`select from stint.job where id = $1 for update`, [fence.job]);
  expect(await writeStepResults(fresh.db, [step])).toEqual(["locked"]);
  await other.run("commit");
  expect(await writeStepResults(fresh.db, [step, { ...step, seq: 2, name: "b" }])).toEqual([
    "written",
    "written",
  ]);
  // A repeat after a lost response finds its own row.
  expect(await writeStepResults(fresh.db, [step])).toEqual(["written"]);
  expect(await writeStepResults(fresh.db, [{ ...step, seq: 3 }])).toEqual(["clash"]);

  await expire(fresh, fence.job);
  await rescue(fresh.db, { limit: 10, maxCrashes: 3 });
  expect(await writeStepResults(fresh.db, [{ ...step, seq: 3, name: "c" }])).toEqual(["lost"]);
});

test("an attempt that ended in a wait counts as settled by its own worker", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  expect(await settledByOwner(fresh.db, [fence])).toEqual(new Set());
  await suspend(fresh.db, [forGo(fence)]);
  expect(await settledByOwner(fresh.db, [fence, ...wrongFences(fence).slice(0, 1)])).toEqual(
    new Set([fence]),
  );
});

test("a cancelled sleep sleeps on after a replay, and runNow ends it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const nap = defineJob("nap", { payload: typed<null>() });
  await startWorker(stint, { handlers: [handle(nap, async ({ sleep }) => await sleep("1h"))] });
  const { id } = await stint.enqueue(nap, null);
  const asleep = async (): Promise<boolean> => (await stint.get(id))?.parkReason === "sleep";
  await until(asleep, { message: "it sleeps" });
  const first = (await stint.get(id))?.parkUntil;
  await stint.cancel(id);
  await stint.replay(id, { reason: "after all" });
  await until(asleep, { message: "it sleeps on" });
  expect((await stint.get(id))?.parkUntil).toEqual(first);

  await stint.runNow(id);
  await stint.waitFor(id, { timeout: "60s" });
  await replay(fresh.db, id, auditInfo());
});

test("a signal in a transaction exists exactly if the transaction commits", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const wait = defineJob("wait", {
    payload: typed<null>(),
    key: () => "order:1",
    signals: ["paid", "refused"],
  });
  await startWorker(stint, {
    handlers: [handle(wait, async ({ waitForSignal }) => await waitForSignal("paid"))],
  });
  const { id } = await stint.enqueue(wait, null);
  await until(async () => (await stint.get(id))?.parkReason === "signal", { message: "it waits" });
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(async () => await client.end());

  await client.query("begin");
  expect(await stint.in(client).signal("order:1", "paid", "no")).toBe(id);
  await client.query("rollback");
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
  await client.query("begin");
  await stint.in(client).signal("order:1", "paid", "yes");
  expect((await stint.get(id))?.state).toBe("parked");
  // A refused signal does not spoil the transaction.
  await expect(stint.in(client).signal("order:1", "piad")).rejects.toThrow('did you mean "paid"?');
  await client.query("commit");

  expect(await stint.waitFor(id, { timeout: "60s" })).toBe("yes");
});

test("bad signals get typed errors and change nothing, in TypeScript and SQL", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const wait = defineJob("wait", { payload: typed<null>(), signals: ["paid"] });
  const other = defineJob("other", { payload: typed<null>() });
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [handle(wait, () => undefined), handle(other, () => undefined)],
  });
  await worker.start();
  await worker.stop();
  const job = await stint.enqueue(wait, null, { key: "k", delay: "1h" });
  const twin = await stint.enqueue(wait, null, { key: "k", delay: "1h" });
  const stranger = await stint.enqueue(other, null, { key: "k", delay: "1h" });
  const ended = await stint.enqueue(other, null, { key: "ended", delay: "1h" });
  await stint.cancel(ended.id);

  const refused: [() => Promise<unknown>, string][] = [
    [() => stint.signal(newId(), "paid"), "JOB_NOT_FOUND"],
    [() => stint.signal("no such key", "paid"), "JOB_NOT_FOUND"],
    [() => stint.signal(ended, "paid"), "WRONG_STATE"],
    [() => stint.signal("ended", "paid"), "WRONG_STATE"],
    [() => stint.signal(job, "payed"), "INVALID_OPTION"],
    [() => stint.signal("k", "paid"), "INVALID_OPTION"],
    [() => stint.signal(job, "no spaces"), "INVALID_OPTION"],
    [() => stint.signal(job, ""), "INVALID_OPTION"],
    [() => stint.signal(job, "paid", undefined, { if: "x" } as never), "INVALID_OPTION"],
    [() => stint.signal(job, "paid", undefined, { id: "x" }), "INVALID_OPTION"],
    [() => stint.signal(null as never, "paid"), "INVALID_OPTION"],
    [() => stint.signal({ key: job.id }, "paid"), "INVALID_OPTION"],
    [() => stint.signal(job, "paid", new Date()), "INVALID_PAYLOAD"],
    [() => stint.signal(job, "paid", "x".repeat(2_000_000)), "INVALID_PAYLOAD"],
    [() => stint.signal(job, "paid", "\0"), "INVALID_PAYLOAD"],
  ];
  for (const [call, code] of refused) await expect(call()).rejects.toMatchObject({ code });

  const text = (target: string, name: string, payload = "null", options = "{}"): Promise<unknown> =>
    fresh.sql(`select stint.signal($1, $2, $3, $4)`, [target, name, payload, options]);
  for (const [call, part] of [
    [() => text(newId(), "paid"), "no job has the id or key"],
    [() => text("ended", "paid"), "is cancelled"],
    [() => text(job.id, "payed"), "declares no such signal"],
    [() => text("k", "paid"), "several live jobs"],
    [() => text(job.id, "no spaces"), "the name must be"],
    [() => text(job.id, "paid", "null", '{"knd": 1}'), 'unknown option "knd"'],
    [() => text(job.id, "paid", "null", '{"id": "x"}'), "id must be a UUID"],
    [() => text(job.id, "paid", "null", "[]"), "options must be"],
    [() => text(job.id, "paid", JSON.stringify("x".repeat(2_000_000))), "bytes of JSON"],
  ] as const)
    await expect(call()).rejects.toThrow(part);
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);

  // A kind that declares the signal is meant before one that declares none.
  await stint.cancel(twin.id);
  expect(await stint.signal("k", "paid", 1)).toBe(job.id);
  expect(await stint.signal({ key: "k", kind: "other" }, "paid", 1)).toBe(stranger.id);
});

test("a repeat of a signal with its id is the same signal, also once it is received", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const id = newId();
  const job = await addOne(fresh.db);
  await stint.signal(job, "go", 1, { id });
  await stint.signal(job, "go", 1, { id });
  expect(await fresh.sql(`select from stint.signal`)).toHaveLength(1);
  const [claimed] = await take(fresh.db);
  await receiveSignal(fresh.db, claimed!.fence, { seq: 1, step: "signal go", signal: "go" });

  expect(await stint.signal(job, "go", 1, { id })).toBe(job);
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
});
