import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, steps, typed, type EnqueueOptions } from "#stint/index.js";
import { freshSchema, sharedSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });
const shared = sharedSchema();

const expired = { state: "cancelled", reason: "expired" };

test("a waiting job that is too old is cancelled as expired, counted, and never runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  const past = new Date(Date.now() - 60_000);
  const jobs = await stint.enqueueMany([
    { job: work, payload: {}, options: { expiresAt: past } },
    { job: work, payload: {}, options: { delay: "1h", expiresAt: new Date(Date.now() + 7_200_000) } },
    { job: work, payload: {}, options: { expiresAt: past, dedupe: { key: "once" } } },
    { job: work, payload: {}, options: { expiresIn: "1h" } },
  ]);
  await fresh.sql("update stint.job set expires_at = now() - interval '1 second' where state = 'scheduled'");
  const { worker } = await startWorker(stint, { handlers: [handle(work, ({ id }) => void ran.push(id))] });
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "all have ended",
  });

  const [one, later, deduped, inTime] = await Promise.all(jobs.map(({ id }) => stint.get(id)));
  expect([one, later, deduped]).toMatchObject([expired, expired, expired]);
  expect(inTime).toMatchObject({ state: "succeeded", expiresAt: expect.any(Date) as Date });
  expect(ran).toEqual([jobs[3]!.id]);
  expect(worker.meter.of("default", "work").expired).toBe(3);
  // The key is free again.
  expect((await stint.enqueue(work, {}, { dedupe: { key: "once" } })).created).toBe(true);
});

test("an expired job that still waits gives its dedupe key to new work", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  const dedupe = { key: "once" };
  const old = await stint.enqueue(work, {}, { dedupe, expiresAt: new Date(Date.now() - 60_000) });
  const [added] = await stint.enqueueMany([{ job: work, payload: {}, options: { dedupe } }]);
  expect(added).toMatchObject({ created: true, status: "created" });
  expect(await stint.enqueue(work, {}, { dedupe })).toMatchObject({ id: added!.id, created: false });

  const { worker } = await startWorker(stint, { handlers: [handle(work, ({ id }) => void ran.push(id))] });
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "both have ended",
  });
  expect(await stint.get(old.id)).toMatchObject(expired);
  expect(worker.meter.of("default", "work").expired).toBe(1);
  expect(ran).toEqual([added!.id]);
});

test("a job that expires while it gathers in a batch does not run", async () => {
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
  const { id } = await stint.enqueue(work, {}, { expiresIn: "3s" });
  await until(async () => (await stint.get(id))?.state === "cancelled", { message: "it has ended" });
  expect(await stint.get(id)).toMatchObject(expired);
  // One that expires after decades gathers on.
  const { id: later } = await stint.enqueue(work, {}, { expiresIn: "9000d" });
  const { id: last } = await stint.enqueue(work, {});
  await until(() => ran.length === 2, { message: "the batch ran" });
  expect(ran.toSorted()).toEqual([later, last].toSorted());
});

test("a job that expires while it waits for its retry does not run again", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const failed = gate();
  let runs = 0;
  await startWorker(stint, {
    handlers: [
      handle(work, { backoff: steps("1h") }, () => {
        runs += 1;
        failed.open();
        throw new Error("down");
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {}, { expiresIn: "1h" });
  await failed.opened;
  await until(async () => (await stint.get(id))?.state === "retrying", { message: "it waits for its retry" });
  await fresh.sql("update stint.job set expires_at = clock_timestamp()");
  await until(async () => (await stint.get(id))?.state === "cancelled", { message: "it has expired" });
  expect([await stint.get(id), runs]).toMatchObject([{ ...expired, attempts: 1 }, 1]);
});

test("a job whose handler sleeps or waits has started, and does not expire", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const half = defineJob("half", { payload: typed<{ waits: "sleep" | "signal" | "children" }>() });
  const child = defineJob("child", { queue: "unserved", payload: typed<object>() });
  const ended: string[] = [];
  await startWorker(stint, {
    handlers: [
      handle(half, async ({ payload, sleep, waitForSignal, spawn, waitForChildren, results }) => {
        if (payload.waits === "sleep") await sleep("1h");
        if (payload.waits === "signal") await waitForSignal("go");
        if (payload.waits === "children" && (await results(child)).length === 0) {
          spawn(child, {});
          return waitForChildren();
        }
        ended.push(payload.waits);
        return undefined;
      }),
    ],
  });
  const ways = ["sleep", "signal", "children"] as const;
  const jobs = await Promise.all(
    ways.map(async (waits) => await stint.enqueue(half, { waits }, { expiresIn: "1h" })),
  );
  const parked = async () =>
    await fresh.sql("select from stint.job where kind = 'half' and state = 'parked'");
  await until(async () => (await parked()).length === 3, { message: "all of them wait" });
  // A job that expires at the same time is cancelled: expiry has looked since then.
  await fresh.sql("update stint.job set expires_at = now() - interval '1 s' where expires_at is not null");
  const { id: old } = await stint.enqueue(work, {}, { expiresAt: new Date(Date.now() - 60_000) });
  await until(async () => (await stint.get(old))?.state === "cancelled", { message: "expiry has looked" });

  expect(await parked()).toHaveLength(3);
  const [sleeper, waiter, parent] = jobs as [(typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0]];
  await stint.runNow(sleeper.id);
  await stint.signal(waiter, "go");
  const view = await stint.flows.get(parent.id);
  await stint.complete(view!.jobs.find(({ kind }) => kind === "child")!.id);
  await until(() => ended.length === 3, { message: "all went on" });
  expect(ended.sort()).toEqual([...ways].sort());
});

test("a running job finishes after it has expired, and a replay runs however late", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [started, end] = [gate(), gate()];
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(work, async () => {
        started.open();
        await end.opened;
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {}, { expiresIn: "1h" });
  await started.opened;
  await fresh.sql("update stint.job set expires_at = clock_timestamp() - interval '1 minute'");
  end.open();
  await seen("settled");
  expect(await stint.get(id)).toMatchObject({ state: "succeeded" });

  const { id: late } = await stint.enqueue(work, {}, { expiresAt: new Date(Date.now() - 60_000) });
  await until(async () => (await stint.get(late))?.state === "cancelled", { message: "it has expired" });
  await stint.replay(late, { reason: "still wanted" });
  await until(async () => (await stint.get(late))?.state === "succeeded", { message: "it ran" });
  expect(await stint.get(late)).toMatchObject({ expiresAt: null, run: 2 });
});

test.each<[unknown, string]>([
  [{ expiresAt: "tomorrow" }, "valid Date"],
  [{ expiresAt: new Date(Number.NaN) }, "valid Date"],
  [{ expiresAt: new Date(8.64e15) }, "9999"],
  [{ expiresIn: 0 }, "expiresIn"],
  [{ expiresIn: "soon" }, "expiresIn"],
  [{ expiresIn: "1m", expiresAt: new Date() }, "not both"],
  [{ expiresIn: "1m", delay: "2m" }, "expire before it may run"],
  [{ expiresAt: new Date(1_000), runAt: new Date(2_000) }, "expire before it may run"],
  [{ expiresat: new Date() }, "did you mean"],
])("an enqueue with %j is refused", async (options, message) => {
  const refused = shared()
    .client()
    .enqueue(work, {}, options as EnqueueOptions);
  await expect(refused).rejects.toThrow(InvalidOptionError);
  await expect(
    shared()
      .client()
      .enqueue(work, {}, options as EnqueueOptions),
  ).rejects.toThrow(message);
});

test.each([
  [`{"expiresIn": "0s"}`, "expiresIn"],
  [`{"expiresIn": "1m", "expiresAt": "2030-01-01T00:00:00Z"}`, "not both"],
  [`{"expiresIn": "1m", "delay": "2m"}`, "expire before it may run"],
  [`{"expiresAt": "2030-01-01T00:00:00Z", "runAt": "2031-01-01T00:00:00Z"}`, "expire before it may run"],
])("in SQL, options of %s are refused", async (options, message) => {
  const sql = `select stint.enqueue('work', '{}', '{"queue": "default"}'::jsonb || $1::jsonb)`;
  await expect(shared().sql(sql, [options])).rejects.toThrow(message);
});
