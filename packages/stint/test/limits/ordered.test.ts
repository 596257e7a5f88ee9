import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, steps, typed } from "#stint/index.js";
import { tendLimits } from "#stint/sql/limits.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

async function inTransaction(
  fresh: Fresh,
  work: (tx: Client) => Promise<void>,
  level = "read committed",
): Promise<void> {
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(async () => await client.end());
  await client.query(`begin isolation level ${level}`);
  await work(client);
  await client.query("commit");
}

type Event = { account: string; n: number };

test("jobs of an ordered key run one at a time, in the order they were enqueued", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", { payload: typed<Event>(), order: { key: ({ account }) => account } });
  const ran: Record<string, number[]> = { a: [], b: [] };
  let running = 0;
  let most = 0;
  const workers = [1, 2, 3].map(() =>
    stint.worker({
      pools: { default: 5 },
      handlers: [
        handle(apply, async ({ payload: { account, n } }) => {
          running += account === "a" ? 1 : 0;
          most = Math.max(most, running);
          ran[account]!.push(n);
          await new Promise(setImmediate);
          running -= account === "a" ? 1 : 0;
        }),
      ],
    }),
  );
  await Promise.all(workers.map((worker) => worker.start()));
  const numbers = Array.from({ length: 30 }, (_, n) => n);
  // Of different priorities: the order is that of the enqueues.
  for (const n of numbers) {
    await stint.enqueueMany(["a", "b"].map((account) => entry(apply, { account, n }, { priority: n % 3 })));
  }
  await until(() => ran["a"]!.length + ran["b"]!.length === 60, { message: "all have run" });
  await Promise.all(workers.map((worker) => worker.stop()));

  expect(ran).toEqual({ a: numbers, b: numbers });
  expect(most).toBe(1);
});

test("a failed job blocks its ordered key until it is replayed and succeeds", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", {
    payload: typed<Event>(),
    attempts: 1,
    order: { key: ({ account }) => account },
  });
  const ran: number[] = [];
  let fails = true;
  const worker = stint.worker({
    pools: { default: 5 },
    handlers: [
      handle(apply, ({ payload: { n } }) => {
        ran.push(n);
        if (n === 0 && fails) throw new Error("no");
      }),
    ],
  });
  await worker.start();
  const [first] = await stint.enqueueMany([0, 1].map((n) => entry(apply, { account: "a", n })));
  await until(async () => (await stint.get(first!.id))?.state === "dead", { message: "the first is dead" });
  await stint.enqueue(apply, { account: "b", n: 2 });
  await until(() => ran.includes(2), { message: "another key continues" });
  expect(ran).toEqual([0, 2]);
  expect(await stint.limits.keys({ name: "order:apply=a" })).toMatchObject([
    { key: "order:apply=a", max: 1, held: 1, waiting: 1, holder: first!.id },
  ]);
  fails = false;
  await stint.replay(first!.id, { reason: "fixed" });
  await until(() => ran.includes(1), { message: "the next one runs" });
  await worker.stop();

  expect(ran).toEqual([0, 2, 0, 1]);
});

test("a dead job gives up its turn when a person passes it, which is audited", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", {
    payload: typed<Event>(),
    attempts: 1,
    order: { key: ({ account }) => account },
  });
  const ran: number[] = [];
  const worker = stint.worker({
    pools: { default: 5 },
    handlers: [
      handle(apply, ({ payload: { n } }) => {
        ran.push(n);
        if (n === 0) throw new Error("no");
      }),
    ],
  });
  await worker.start();
  const [first] = await stint.enqueueMany([0, 1].map((n) => entry(apply, { account: "a", n })));
  await until(async () => (await stint.get(first!.id))?.state === "dead", { message: "the first is dead" });

  expect(await stint.limits.pass("order:apply=b", { reason: "x" })).toBeUndefined();
  expect(await stint.limits.pass("order:apply=a", { reason: "fixed by hand" })).toBe(first!.id);
  await until(() => ran.includes(1), { message: "the next one runs" });
  expect(await stint.limits.pass("order:apply=a", { reason: "x" })).toBeUndefined();
  await worker.stop();

  expect((await stint.audit(first!.id)).map(({ action, reason }) => [action, reason])).toEqual([
    ["pass-order", "fixed by hand"],
  ]);
});

test('with onFailure "pass", the jobs behind a failed one run before its retry', async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", {
    payload: typed<Event>(),
    backoff: steps(100),
    order: { key: ({ account }) => account, onFailure: "pass" },
  });
  const ran: number[] = [];
  let running = 0;
  const worker = stint.worker({
    pools: { default: 5 },
    handlers: [
      handle(apply, async ({ payload: { n }, attempt }) => {
        expect(++running).toBe(1);
        await new Promise(setImmediate);
        running -= 1;
        ran.push(n);
        if (n === 0 && attempt === 1) throw new Error("no");
      }),
    ],
  });
  await worker.start();
  await stint.enqueueMany([0, 1, 2].map((n) => entry(apply, { account: "a", n })));
  await until(() => ran.length === 4, { message: "all have run" });
  await worker.stop();

  expect(ran.slice(0, 2)).toEqual([0, 1]);
  expect(ran.toSorted((a, b) => a - b)).toEqual([0, 0, 1, 2]);
});

test("an enqueue in an open transaction holds up no job of its ordered key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", { payload: typed<Event>(), order: { key: ({ account }) => account } });
  const ran: number[] = [];
  const hold = gate();
  const worker = stint.worker({
    pools: { default: 5 },
    handlers: [
      handle(apply, async ({ payload: { n } }) => {
        ran.push(n);
        if (n === 0) await hold.opened;
      }),
    ],
  });
  await worker.start();
  const first = await stint.enqueue(apply, { account: "a", n: 0 });
  await until(() => ran.length === 1, { message: "the first runs" });
  await inTransaction(fresh, async (tx) => {
    await stint.in(tx).enqueue(apply, { account: "a", n: 1 });
    hold.open();
    await until(async () => (await stint.get(first.id))?.state === "succeeded", {
      message: "the first ends",
    });
    await stint.enqueue(apply, { account: "a", n: 2 });
    await until(() => ran.includes(2), { message: "a later job that committed earlier runs" });
  });
  await until(() => ran.includes(1), { message: "the job of the transaction runs after its commit" });
  await worker.stop();

  expect(ran).toEqual([0, 2, 1]);
});

test("a job with a later time holds its turn until then", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", { payload: typed<Event>(), order: { key: ({ account }) => account } });
  const [later, next] = await stint.enqueueMany([
    entry(apply, { account: "a", n: 0 }, { delay: "1h" }),
    entry(apply, { account: "a", n: 1 }),
  ]);

  expect((await stint.get(later!.id))?.state).toBe("scheduled");
  expect(await stint.get(next!.id)).toMatchObject({ state: "parked", parkReason: "limit" });
  await stint.cancel(later!.id);
  expect((await stint.get(next!.id))?.state).toBe("ready");
});

test.each(["repeatable read", "serializable"])(
  "an ordered job that a %s transaction enqueues waits for its turn",
  async (level) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const apply = defineJob("apply", { payload: typed<Event>(), order: { key: ({ account }) => account } });
    const enqueue = async (n: number, tx = stint as Pick<typeof stint, "enqueue">): Promise<string> =>
      (await tx.enqueue(apply, { account: "a", n })).id;
    const stateOf = async (id: string): Promise<unknown> => (await stint.get(id))?.state;
    let waits = "";
    let first = "";
    await inTransaction(
      fresh,
      async (tx) => {
        waits = await enqueue(1, stint.in(tx));
        first = await enqueue(0);
      },
      level,
    );
    await tendLimits(fresh.db, false, "w");
    expect([await stateOf(first), await stateOf(waits)]).toEqual(["ready", "parked"]);

    let last = "";
    await inTransaction(
      fresh,
      async (tx) => {
        last = await enqueue(2, stint.in(tx));
        await stint.cancel(waits);
        await stint.cancel(first);
      },
      level,
    );
    await tendLimits(fresh.db, false, "w");
    expect(await stateOf(last)).toBe("ready");
  },
);

test("a completion in an open transaction holds up no enqueue of its ordered key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const apply = defineJob("apply", { payload: typed<Event>(), order: { key: ({ account }) => account } });
  const [head, next] = await stint.enqueueMany([0, 1].map((n) => entry(apply, { account: "a", n })));
  await inTransaction(fresh, async (tx) => {
    await stint.in(tx).complete(head!.id);
    await stint.enqueue(apply, { account: "a", n: 2 });
    await tendLimits(fresh.db, true, "w");
    expect((await stint.get(next!.id))?.state).toBe("parked");
  });
  await tendLimits(fresh.db, false, "w");
  expect((await stint.get(next!.id))?.state).toBe("ready");
});
