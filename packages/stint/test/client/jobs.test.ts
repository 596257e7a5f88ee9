import { Client } from "pg";
import { expect, test } from "vitest";
import {
  defineJob,
  handle,
  InvalidOptionError,
  JobNotFoundError,
  PermanentError,
  SchemaVersionError,
  typed,
  WrongStateError,
  type Job,
  type ListOptions,
  type Stint,
} from "#stint/index.js";
import { parkRules } from "#stint/model/park-reasons.js";
import { freshSchemaName } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";

type Wish = "succeed" | "die" | "hold";
const work = defineJob("work", { payload: typed<Wish>(), attempts: 1 });
const other = defineJob("other", { payload: typed<number>(), queue: "side" });
const missing = "0199a000-0000-7000-8000-00000000abcd";

async function startWorker(stint: Stint) {
  const held = gate();
  const worker = stint.worker({
    pools: { default: 5 },
    signals: false,
    handlers: [
      handle(work, async ({ payload, signal }) => {
        if (payload === "die") throw new PermanentError("no use");
        if (payload !== "hold") return;
        held.open();
        await new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        );
      }),
    ],
  });
  await worker.start();
  return { held: held.opened, stop: () => worker.stop() };
}

async function enqueueAndEnd(stint: Stint, wish: Wish): Promise<string> {
  const { id } = await stint.enqueue(work, wish);
  await stint.waitFor(id, { timeout: "60s" }).catch(() => undefined);
  return id;
}

async function audit(fresh: Fresh) {
  return await fresh.sql<Record<string, unknown>>(
    "select actor, action, reason, job_id from stint.audit order by at",
  );
}

test("get returns a job, live or finished, and undefined for an unknown id", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(other, 5, {
    delay: "1h",
    priority: 3,
    attempts: 2,
    key: "k",
    tenant: "t",
    tags: ["x"],
    meta: { a: 1 },
  });
  const job = await stint.get(id);
  expect(job).toEqual({
    id,
    kind: "other",
    queue: "side",
    state: "scheduled",
    priority: 3,
    runAt: expect.any(Date),
    createdAt: expect.any(Date),
    finishedAt: null,
    attempts: 0,
    maxAttempts: 2,
    crashes: 0,
    interruptions: 0,
    faults: 0,
    expiresAt: null,
    epoch: 0,
    run: 1,
    worker: null,
    claimedAt: null,
    leaseUntil: null,
    cancelRequested: false,
    key: "k",
    tenant: "t",
    tags: ["x"],
    meta: { a: 1 },
    parkReason: null,
    parkUntil: null,
    reason: null,
    payload: 5,
    result: null,
    log: [],
  } satisfies Record<keyof Job, unknown>);
  expect(job!.runAt.getTime() - job!.createdAt.getTime()).toBe(3_600_000);

  await stint.cancel(id);
  expect(await stint.get(id.toUpperCase())).toMatchObject({
    id,
    state: "cancelled",
    tags: ["x"],
    meta: { a: 1 },
  });
  expect(await stint.get(missing)).toBeUndefined();
  await expect(stint.get("1; drop table stint.job")).rejects.toThrow(InvalidOptionError);
  await expect(stint.get(undefined as unknown as string)).rejects.toThrow(
    "id: must be the UUID of a job, got undefined",
  );
});

test("list filters by state, kind, queue, tenant, key and tag", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorker(stint);
  const dead = await enqueueAndEnd(stint, "die");
  const done = await enqueueAndEnd(stint, "succeed");
  await worker.stop();
  const ready = (await stint.enqueue(work, "succeed", { tenant: "t", tags: ["a", "b"] })).id;
  const later = (await stint.enqueue(other, 1, { delay: "1h", key: "k" })).id;

  const ids = async (options: ListOptions) => (await stint.list(options)).jobs.map((job) => job.id);
  expect(await ids({})).toEqual([later, ready, done, dead]);
  expect(await ids({ state: "dead" })).toEqual([dead]);
  expect(await ids({ state: ["ready", "succeeded"] })).toEqual([ready, done]);
  expect(await ids({ state: [] })).toEqual([]);
  expect(await ids({ kind: "work" })).toEqual([ready, done, dead]);
  expect(await ids({ queue: "side" })).toEqual([later]);
  expect(await ids({ tenant: "t" })).toEqual([ready]);
  expect(await ids({ key: "k" })).toEqual([later]);
  expect(await ids({ tag: "b", kind: "work" })).toEqual([ready]);
  expect(await ids({ tag: "c" })).toEqual([]);
});

test("paging returns every old job once while new ones arrive", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const old: string[] = [];
  for (let n = 0; n < 25; n++) old.push((await stint.enqueue(other, n)).id);

  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = await stint.list({ limit: 10, ...(after === undefined ? {} : { after }) });
    expect(page.jobs.length).toBeLessThanOrEqual(10);
    seen.push(...page.jobs.map((job) => job.id));
    after = page.next;
    await stint.enqueueMany([1, 2, 3].map((payload) => ({ job: other, payload })));
  } while (after !== undefined);
  expect(seen).toEqual(old.toReversed());
});

test.each([
  [{ state: "finished" }, 'list.state: must be "scheduled" or'],
  [{ state: "deat" }, 'did you mean "dead"?'],
  [{ limit: 0 }, "list.limit: must be an integer from 1 to 1000, got 0"],
  [{ limit: 1001 }, "list.limit"],
  [{ after: "page2" }, 'list.after: must be the UUID of a job, got "page2"'],
  [{ kind: "a b" }, "list.kind"],
  [{ tags: ["a"] }, 'list.tags: is not an option; did you mean "tag"?'],
  [{ tenant: "" }, "list.tenant: must not be empty"],
])("list refuses %j", async (options, message) => {
  const fresh = await freshSchema();
  const listing = fresh.client().list(options as ListOptions);
  await expect(listing).rejects.toThrow(InvalidOptionError);
  await expect(listing).rejects.toThrow(message);
});

test("cancel ends a waiting job, aborts a running one, and records actor and reason", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ actor: "api" });
  const waiting = (await stint.enqueue(other, 1)).id;
  expect(await stint.cancel(waiting, { reason: "customer's wish", actor: "mia" })).toBe("cancelled");
  expect(await stint.get(waiting)).toMatchObject({ state: "cancelled", reason: "customer's wish" });

  const worker = await startWorker(stint);
  const running = (await stint.enqueue(work, "hold")).id;
  await worker.held;
  expect(await stint.cancel(running)).toBe("asked");
  await expect(stint.waitFor(running, { timeout: "60s" })).rejects.toMatchObject({ state: "cancelled" });
  await worker.stop();

  expect(await audit(fresh)).toEqual([
    { actor: "mia", action: "cancel", reason: "customer's wish", job_id: waiting },
    { actor: "api", action: "cancel", reason: null, job_id: running },
  ]);
});

test("runNow makes a scheduled job ready, and leaves a ready one unchanged", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(other, 1, { delay: "1h" });
  await stint.runNow(id, { reason: "cannot wait" });
  expect(await stint.get(id)).toMatchObject({ state: "ready" });
  await stint.runNow(id);
  expect(await audit(fresh)).toEqual([
    { actor: "app", action: "run-now", reason: "cannot wait", job_id: id },
  ]);
});

test("replay requeues a dead job with fresh attempts and keeps its history", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorker(stint);
  const id = await enqueueAndEnd(stint, "die");
  expect(await stint.get(id)).toMatchObject({ state: "dead", attempts: 1, run: 1 });
  await worker.stop();

  await stint.replay(id, { reason: "the bug is fixed" });
  const again = await stint.get(id);
  expect(again).toMatchObject({
    state: "ready",
    attempts: 0,
    run: 2,
    epoch: 1,
    log: [{ outcome: "failed" }],
  });
  expect(await audit(fresh)).toEqual([
    { actor: "app", action: "replay", reason: "the bug is fixed", job_id: id },
  ]);
});

test("replay needs a reason", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(other, 1);
  await stint.cancel(id);
  await expect(stint.replay(id, {} as { reason: string })).rejects.toThrow("replay.reason: is required");
  await expect(stint.replay(id, { reason: "" })).rejects.toThrow("replay.reason: must not be empty");
  await expect(stint.replay(id, undefined as never)).rejects.toThrow("replay.reason: is required");
  expect((await stint.get(id))!.state).toBe("cancelled");
  await stint.replay(id, { reason: "second thoughts" });
  expect((await stint.get(id))!.state).toBe("ready");
});

test("runNow refuses a park reason it cannot lift, with what lifts it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(other, 1);
  await fresh.sql("update stint.job set state = 'parked', park_reason = 'breaker' where id = $1", [id]);

  const refused = await stint.runNow(id).catch((error: unknown) => error);

  expect(refused).toBeInstanceOf(WrongStateError);
  expect(refused).toMatchObject({ state: "parked", action: "runNow", allowed: ["scheduled", "retrying"] });
  expect(String(refused)).toContain(
    `Job ${id} is parked (breaker), and runNow cannot lift that: ${parkRules.breaker.why} Nothing was changed.`,
  );
});

test("an operation on a wrong state or a missing job is refused and writes nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorker(stint);
  const done = await enqueueAndEnd(stint, "succeed");
  await worker.stop();
  const ready = (await stint.enqueue(other, 1)).id;
  const reason = "why not";

  const wrong: [() => Promise<unknown>, string][] = [
    [() => stint.cancel(done), `Job ${done} is succeeded; cancel needs a job that is scheduled or ready`],
    [
      () => stint.runNow(done),
      `Job ${done} is succeeded; runNow needs a job that is scheduled or retrying or parked`,
    ],
    [
      () => stint.replay(done, { reason }),
      `Job ${done} is succeeded; replay needs a job that is dead or cancelled`,
    ],
    [() => stint.replay(ready, { reason }), `Job ${ready} is ready; replay needs`],
  ];
  for (const [operation, message] of wrong) {
    const done = operation();
    await expect(done).rejects.toThrow(WrongStateError);
    await expect(done).rejects.toThrow(message);
  }
  const operations: ((id: string) => Promise<unknown>)[] = [
    (id) => stint.cancel(id),
    (id) => stint.runNow(id),
    (id) => stint.replay(id, { reason }),
  ];
  for (const operation of operations) {
    const onMissing = operation(missing);
    await expect(onMissing).rejects.toThrow(JobNotFoundError);
    await expect(onMissing).rejects.toThrow(`No job ${missing} exists`);
    await expect(operation("1")).rejects.toThrow('id: must be the UUID of a job, got "1"');
  }
  await expect(stint.cancel(ready, { why: "x" } as never)).rejects.toThrow("cancel.why: is not an option");
  expect(await audit(fresh)).toEqual([]);
});

test("queues counts what each queue holds", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(other, 1);
  await stint.enqueue(other, 2, { delay: "1h" });
  const counts = await stint.queues();
  expect(counts).toMatchObject([{ queue: "side" }]);
  expect(await stint.workers()).toEqual([]);
});

test("reads and operations on a missing schema throw with the command to run", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ schema: freshSchemaName() });
  for (const attempt of [
    () => stint.get(missing),
    () => stint.list(),
    () => stint.cancel(missing),
    () => stint.runNow(missing),
    () => stint.replay(missing, { reason: "x" }),
    () => stint.queues(),
    () => stint.workers(),
    () => stint.enqueue(other, 1),
    () => stint.enqueueMany([{ job: other, payload: 1 }]),
    () => stint.waitFor(missing),
  ]) {
    const attempted = attempt();
    await expect(attempted).rejects.toThrow(SchemaVersionError);
    await expect(attempted).rejects.toThrow("npx stint migrate");
  }
});

test("a job enqueued in an open transaction is not visible yet", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  await client.query("begin");
  const { id } = await stint.in(client).enqueue(other, 1);
  await expect(stint.cancel(id)).rejects.toThrow("it was never committed");
  await client.query("commit");
  await client.end();
  expect(await stint.cancel(id)).toBe("cancelled");
});

test("every method that acts on a job takes its id, or what enqueue returned", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const later = await stint.enqueue(other, 1, { delay: "1h" });
  await stint.runNow(later);
  expect(await stint.cancel(later)).toBe("cancelled");
  await stint.replay(later, { reason: "again" });
  expect((await stint.audit(later)).map(({ action }) => action)).toEqual(["run-now", "cancel", "replay"]);
  for (const act of [
    () => stint.cancel({} as never),
    () => stint.runNow(undefined as never),
    () => stint.replay({ id: 1 } as never, { reason: "again" }),
    () => stint.audit(null as never),
  ])
    await expect(act()).rejects.toThrow(InvalidOptionError);
});
