import { expect, onTestFinished, test } from "vitest";
import {
  defineJob,
  handle,
  steps,
  typed,
  type Handler,
  type Stint,
  type WorkerOptions,
} from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { onPg } from "../support/transactions.ts";
import { until } from "../support/until.ts";

type Order = { order: number };
type Shipped = { tracking: string };

const ship = defineJob("ship", { payload: typed<Order>(), result: typed<Shipped>() });
const charge = defineJob("charge", {
  payload: typed<Order>(),
  result: typed<Shipped | { refused: string }>(),
  backoff: steps(0),
});
const count = defineJob("count", {
  payload: typed<{ n: number }>(),
  result: typed<number>(),
  backoff: steps(0),
});
const sum = defineJob("sum", { payload: typed<object>(), result: typed<number>() });

async function work(stint: Stint, handlers: Handler[], options: Partial<WorkerOptions> = {}): Promise<void> {
  const worker = stint.worker({ pools: { default: 4 }, handlers, ...options });
  await worker.start();
}

test("waitFor on the first job of a chain returns the result of the last", async () => {
  const stint = (await freshSchema()).client();
  await work(stint, [
    handle(charge, ({ payload, continueWith }) =>
      payload.order < 0 ? { refused: "no money" } : continueWith(ship, payload),
    ),
    handle(ship, ({ payload }) => ({ tracking: `T${payload.order}` })),
    handle(count, ({ payload, continueWith }) =>
      payload.n >= 5 ? payload.n : continueWith(count, { n: payload.n + 1 }),
    ),
  ]);
  const [linear, branch, loop] = await Promise.all([
    stint.enqueue(charge, { order: 7 }),
    stint.enqueue(charge, { order: -1 }),
    stint.enqueue(count, { n: 1 }),
  ]);

  const shipped: Shipped | { refused: string } = await stint.waitFor(linear, { timeout: "60s" });
  expect(shipped).toEqual({ tracking: "T7" });
  expect(await stint.waitFor(branch, { timeout: "60s" })).toEqual({ refused: "no money" });
  const last: number = await stint.waitFor(loop, { timeout: "60s" });
  expect(last).toBe(5);
});

test("an attempt that fails leaves no continuation and no child behind", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await work(stint, [
    handle(count, ({ attempt, spawn, continueWith }) => {
      spawn(ship, { order: attempt });
      const next = continueWith(sum, { attempt });
      if (attempt < 3) throw new Error("try again");
      return next;
    }),
    handle(sum, () => 42),
    handle(ship, () => ({ tracking: "" })),
  ]);
  const job = await stint.enqueue(count, { n: 1 });

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(42);
  const { jobs } = await stint.list({ kind: "ship" });
  expect(jobs.map(({ payload }) => payload)).toEqual([{ order: 3 }]);
  expect((await stint.list({ kind: "sum" })).jobs).toHaveLength(1);
});

test("a handler's own writes, its success and its continuation commit together", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql(`create table "${fresh.schema}".paid (n integer)`);
  let failures = 1;
  await work(stint, [
    handle(count, ({ complete, continueWith, payload }) =>
      complete(async (tx) => {
        await tx.query(`insert into "${fresh.schema}".paid values ($1)`, [payload.n]);
        const next = continueWith(sum, {});
        if (failures-- > 0) throw new Error("rolled back");
        return next;
      }),
    ),
    handle(sum, () => 1),
  ]);
  const job = await stint.enqueue(count, { n: 8 });

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(1);
  expect(await fresh.sql(`select n from "${fresh.schema}".paid`)).toEqual([{ n: 8 }]);
  expect((await stint.list({ kind: "sum" })).jobs).toHaveLength(1);
});

test.each<[string, Handler, RegExp]>([
  [
    "a result beside the continuation",
    handle(count, ({ continueWith }) => {
      continueWith(sum, {});
      return 5;
    }),
    /continueWith: the handler returned something else/,
  ],
  [
    "two continuations",
    handle(count, ({ continueWith }) => {
      continueWith(sum, {});
      return continueWith(sum, {});
    }),
    /continueWith: was already called/,
  ],
  [
    "a dedupe key",
    handle(count, ({ continueWith }) => continueWith(sum, {}, { dedupe: { key: "k" } } as never)),
    /continueWith.dedupe: cannot be given/,
  ],
  [
    "its own job",
    handle(count, ({ id, continueWith }) => continueWith(sum, {}, { after: [id] })),
    /cannot wait for itself/,
  ],
  ["no children", handle(count, ({ waitForChildren }) => waitForChildren()), /no children to wait for/],
])("a handler that asks for %s fails, and nothing follows", async (_, handler, message) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await work(stint, [handler], { attempts: 1 });
  const job = await stint.enqueue(count, { n: 1 });

  await expect(stint.waitFor(job, { timeout: "60s" })).rejects.toThrow(message);
  expect(await fresh.sql(`select from stint.jobs`)).toHaveLength(1);
});

test("a job that waits for others gets their typed results", async () => {
  const stint = (await freshSchema()).client();
  const [a, b] = [await stint.enqueue(ship, { order: 1 }), await stint.enqueue(charge, { order: 2 })];
  const job = await stint.enqueue(sum, {}, { after: [a, b.id], onFailure: "run" });
  await work(stint, [
    handle(ship, ({ payload }) => ({ tracking: `T${payload.order}` })),
    handle(charge, ({ payload, continueWith }) => continueWith(ship, payload)),
    handle(sum, async ({ results }) => {
      const [shipped] = await results(ship);
      if (shipped?.state !== "succeeded") return 0;
      const tracking: string = shipped.result.tracking;
      const all = await results();
      return all.length * 100 + tracking.length;
    }),
  ]);

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(202);
});

test("a parent waits for its children without a slot", async () => {
  const stint = (await freshSchema()).client();
  await work(
    stint,
    [
      handle(sum, async ({ results, spawn, waitForChildren }) => {
        const counted = await results(count);
        if (counted.length > 0)
          return counted.reduce((total, one) => total + (one.state === "succeeded" ? one.result : 0), 0);
        for (const n of [1, 2, 3]) spawn(count, { n });
        return waitForChildren();
      }),
      handle(count, ({ payload }) => payload.n),
    ],
    { pools: { default: 1 } },
  );
  const job = await stint.enqueue(sum, {});

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(6);
});

test("a series that enqueues itself with its own dedupe key while it settles continues", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const poll = defineJob("poll", { payload: typed<{ n: number }>() });
  const ran: number[] = [];
  const dedupe = { key: "one", until: "finished" };
  await work(stint, [
    handle(poll, ({ payload: { n }, complete }) =>
      complete(async (tx) => {
        ran.push(n);
        if (n < 3) await stint.in(tx.client as never).enqueue(poll, { n: n + 1 }, { dedupe });
      }),
    ),
  ]);
  await stint.enqueue(poll, { n: 1 }, { dedupe });

  await until(() => ran.length === 3, { message: "three jobs of the series" });
  expect(ran).toEqual([1, 2, 3]);
});

test("SQL takes after and onFailure as TypeScript does", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await stint.enqueue(count, { n: 1 });
  const enqueue = (options: object): Promise<{ id: string }[]> =>
    fresh.sql(`select stint.enqueue('sum', '{}', $1) as id`, [{ queue: "default", ...options }]);
  const [waits] = await enqueue({ after: [first.id], onFailure: "cancel" });
  expect(await stint.get(waits!.id)).toMatchObject({ state: "parked", parkReason: "blocked" });

  await stint.cancel(first.id);
  expect(await stint.get(waits!.id)).toMatchObject({ state: "cancelled" });
  await expect(enqueue({ after: "x" })).rejects.toThrow(/after must be an array/);
  await expect(enqueue({ after: [first.id], onFailure: "stop" })).rejects.toThrow(/onFailure must be/);
  await expect(enqueue({ onFailure: "park" })).rejects.toThrow(/beside after/);
});

test("one enqueue_many in SQL declares jobs that wait for one another, in any order", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [first, last] = ["01980000-0000-7000-8000-000000000001", "01980000-0000-7000-8000-000000000002"];
  const job = (id: string, options: object): object => ({
    kind: "sum",
    options: { id, queue: "default", ...options },
  });
  const jobs = [job(last, { after: [first], onFailure: "cancel" }), job(first, {})];
  await fresh.sql(`select * from stint.enqueue_many($1)`, [JSON.stringify(jobs)]);
  expect(await stint.get(last)).toMatchObject({ state: "parked", parkReason: "blocked" });

  await stint.cancel(first);
  expect(await stint.get(last)).toMatchObject({ state: "cancelled" });
  const own = "01980000-0000-7000-8000-000000000003";
  const itself = JSON.stringify([job(own, { after: [own] })]);
  await expect(fresh.sql(`select * from stint.enqueue_many($1)`, [itself])).rejects.toThrow(
    /wait for itself/,
  );
});

test.each<[string, object, RegExp]>([
  ["no array", { after: "x" }, /after: must be an array of jobs/],
  ["no id", { after: ["x"] }, /after\[0\]: must be the UUID/],
  ["nothing", { after: [null] }, /after\[0\]: must be the UUID/],
  ["a policy alone", { onFailure: "run" }, /onFailure: has no meaning without after/],
  ["an unknown policy beside no job", { after: [], onFailure: "stop" as "run" }, /onFailure: must be/],
  [
    "a misspelt policy",
    { after: ["00000000-0000-7000-8000-000000000001"], onFailure: "cancle" },
    /did you mean "cancel"/,
  ],
  ["a job that does not exist", { after: ["00000000-0000-7000-8000-000000000001"] }, /No job 0000/],
  [
    "itself",
    { id: "00000000-0000-7000-8000-000000000001", after: ["00000000-0000-7000-8000-000000000001"] },
    /cannot wait for itself/,
  ],
])("after: %s is refused, and nothing is written", async (_, options, message) => {
  const fresh = await freshSchema();

  await expect(fresh.client().enqueue(sum, {}, options as never)).rejects.toThrow(message);
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
});

test("in a transaction a job waits for others exactly if it commits", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await stint.enqueue(count, { n: 1 });
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  await onPg(client, async () => {
    await stint.in(client).enqueue(sum, {}, { after: [first] });
    throw new Error("rolled back");
  }).catch(() => undefined);
  expect(await fresh.sql(`select from stint.flow_edge`)).toEqual([]);

  await onPg(client, async () => void (await stint.in(client).enqueue(sum, {}, { after: [first] })));
  expect(await fresh.sql(`select from stint.flow_edge`)).toHaveLength(1);
});
