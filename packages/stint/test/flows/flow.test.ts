import { expect, onTestFinished, test } from "vitest";
import {
  BatchClosedError,
  defineJob,
  entry,
  handle,
  PermanentError,
  typed,
  type Handler,
  type Stint,
} from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { onPg } from "../support/transactions.ts";
import { until } from "../support/until.ts";

type Order = { order: number };
const reserve = defineJob("reserve", { payload: typed<Order>(), result: typed<string>() });
const charge = defineJob("charge", { payload: typed<Order>(), result: typed<string>() });
const ship = defineJob("ship", { payload: typed<Order>(), result: typed<string>() });
const refund = defineJob("refund", { payload: typed<Order>() });
const restock = defineJob("restock", { payload: typed<Order>() });
const hook = defineJob("hook", { payload: typed<{ n: number }>(), result: typed<number>() });
const summary = defineJob("summary", { payload: typed<object>(), result: typed<number>() });

const order = { order: 1 };

async function work(stint: Stint, handlers: Handler[]): Promise<void> {
  await stint.worker({ pools: { default: 4 }, attempts: 1, handlers }).start();
}

async function count(fresh: Fresh): Promise<number> {
  return (await fresh.sql(`select from stint.jobs`)).length;
}

test("a flow runs its parts in the order of its graph", async () => {
  const stint = (await freshSchema()).client();
  const ran: string[] = [];
  const note = (name: string) => () => {
    ran.push(name);
    return name;
  };
  const flow = await stint.flow("checkout", {
    ship: entry(ship, order, { after: ["charge", "reserve"] }),
    charge: entry(charge, order, { after: ["reserve"] }),
    reserve: entry(reserve, order),
  });
  await work(stint, [
    handle(reserve, note("reserve")),
    handle(charge, note("charge")),
    handle(ship, async ({ results }) => (await results()).map((one) => one.result).join(" ")),
  ]);

  const shipped: string = await stint.waitFor(flow.jobs.ship, { timeout: "60s" });
  expect(shipped).toBe("charge reserve");
  expect(ran).toEqual(["reserve", "charge"]);
  const view = await stint.flows.get(flow.jobs.charge.id);
  expect(view).toMatchObject({ id: flow.id, name: "checkout", state: "succeeded", parts: 3, succeeded: 3 });
});

test.each<[string, object, RegExp]>([
  [
    "a circle",
    {
      a: entry(ship, order, { after: ["b"] }),
      b: entry(ship, order, { after: ["c"] }),
      c: entry(ship, order, { after: ["a"] }),
    },
    /in a circle: a → c → b → a/,
  ],
  ["itself", { a: entry(ship, order, { after: ["a"] }) }, /in a circle: a → a/],
  [
    "an unknown part",
    { charge: entry(ship, order), b: entry(ship, order, { after: ["chrage"] }) },
    /did you mean "charge"/,
  ],
  ["no entry", { a: "ship" }, /must be made by entry/],
  ["no part", {}, /must have a part/],
  ["a list", [entry(ship, order)], /must be an object of entries/],
  ["a dedupe key", { a: entry(ship, order, { dedupe: { key: "k" } }) }, /a.dedupe: cannot be given/],
  [
    "a job that does not exist",
    { a: entry(ship, order), b: entry(ship, order, { after: ["00000000-0000-7000-8000-000000000001"] }) },
    /No job/,
  ],
])("a flow with %s is refused, and nothing is written", async (_, parts, message) => {
  const fresh = await freshSchema();

  await expect(fresh.client().flow("f", parts as never)).rejects.toThrow(message);
  expect(await count(fresh)).toBe(0);
});

test("in a transaction a flow exists exactly if it commits", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  const parts = { a: entry(ship, order), b: entry(ship, order, { after: ["a"] }) };
  await onPg(client, async () => {
    await stint.in(client).flow("f", parts);
    throw new Error("rolled back");
  }).catch(() => undefined);
  expect(await count(fresh)).toBe(0);

  await onPg(client, async () => void (await stint.in(client).flow("f", parts)));
  expect(await count(fresh)).toBe(2);
});

test("a batch runs its callback once, with all results", async () => {
  const stint = (await freshSchema()).client();
  let calls = 0;
  await work(stint, [
    handle(hook, ({ payload: { n } }) => {
      if (n === 3) throw new PermanentError("refused");
      return n;
    }),
    handle(summary, async ({ results }) => {
      calls += 1;
      const all = await results(hook);
      return all.reduce((sum, one) => sum + (one.state === "succeeded" ? one.result : 100), 0);
    }),
  ]);
  const entries = Array.from({ length: 50 }, (_, n) => entry(hook, { n }));
  const batch = await stint.batch(entries, { onComplete: entry(summary, {}), name: "webhooks" });

  expect(await stint.waitFor(batch.callback, { timeout: "60s" })).toBe(1225 - 3 + 100);
  expect(calls).toBe(1);
  expect(await stint.flows.get(batch.id)).toMatchObject({
    name: "webhooks",
    parts: 51,
    succeeded: 50,
    dead: 1,
  });
});

test("an open batch takes jobs until it is closed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await work(stint, [
    handle(hook, ({ payload: { n } }) => n),
    handle(summary, async ({ results }) => (await results(hook)).length),
  ]);
  const batch = await stint.batch([entry(hook, { n: 1 })], { onComplete: entry(summary, {}), open: true });
  await stint.waitFor(batch.jobs[0]!, { timeout: "60s" });
  const [added] = await stint.flows.add(batch.id, [entry(hook, { n: 2 }), entry(hook, { n: 3 })]);
  await stint.waitFor(added!, { timeout: "60s" });
  expect((await stint.get(batch.callback))?.parkReason).toBe("blocked");

  await stint.flows.close(batch.id);
  await stint.flows.close(batch.id);
  expect(await stint.waitFor(batch.callback, { timeout: "60s" })).toBe(3);
  await expect(stint.flows.add(batch.id, [entry(hook, { n: 4 })])).rejects.toThrow(BatchClosedError);
  expect(await count(fresh)).toBe(4);
});

test("a failed part stops its flow, and compensations run in reverse order", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  await work(stint, [
    handle(reserve, () => "shelf 7"),
    handle(charge, () => "ch_1"),
    handle(ship, () => {
      throw new PermanentError("no such address");
    }),
    handle(refund, async ({ results }) => void ran.push(`refund ${(await results(charge))[0]?.result}`)),
    handle(restock, async ({ results }) => void ran.push(`restock ${(await results(reserve))[0]?.result}`)),
    handle(summary, () => 1),
  ]);
  const flow = await stint.flow("order", {
    reserve: entry(reserve, order, { compensate: entry(restock, order) }),
    charge: entry(charge, order, { after: ["reserve"], compensate: entry(refund, order) }),
    ship: entry(ship, order, { after: ["charge"] }),
    mail: entry(summary, {}, { after: ["ship"] }),
  });

  await until(async () => (await stint.flows.get(flow.id))?.state === "compensated", {
    message: "it is undone",
  });
  expect(ran).toEqual(["refund ch_1", "restock shelf 7"]);
  expect((await stint.get(flow.jobs.mail))?.state).toBe("cancelled");
  expect((await stint.flows.get(flow.id))?.reason).toBe(`ship ${flow.jobs.ship.id} is dead`);
  await expect(stint.replay(flow.jobs.ship.id, { reason: "again" })).rejects.toThrow(/stopped/);
});

test("a chain undoes its earlier jobs when a later one dies", async () => {
  const stint = (await freshSchema()).client();
  const ran: string[] = [];
  await work(stint, [
    handle(charge, ({ continueWith }) => continueWith(ship, order)),
    handle(ship, () => {
      throw new PermanentError("no such address");
    }),
    handle(refund, () => void ran.push("refund")),
  ]);
  const job = await stint.enqueue(charge, order, { compensate: entry(refund, order) });

  await expect(stint.waitFor(job, { timeout: "60s" })).rejects.toThrow("no such address");
  await until(() => ran.length === 1, { message: "the charge is refunded" });
  expect(ran).toEqual(["refund"]);
});

test("cancelling a flow cancels what waits, and asks what runs to stop", async () => {
  const stint = (await freshSchema()).client();
  const flow = await stint.flow("f", {
    reserve: entry(reserve, order),
    charge: entry(charge, order, { after: ["reserve"] }),
    ship: entry(ship, order, { after: ["charge"], onFailure: "run" }),
  });
  let started: () => void = () => undefined;
  const entered = new Promise<void>((resolve) => (started = resolve));
  await work(stint, [
    handle(reserve, async ({ signal }) => {
      started();
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
      return "";
    }),
    handle(ship, () => "shipped"),
  ]);
  await entered;

  expect(await stint.flows.cancel(flow.jobs.charge.id, { reason: "the customer left" })).toBe(3);
  await until(async () => (await stint.flows.get(flow.id))?.live === 0, { message: "all parts have ended" });
  const view = await stint.flows.get(flow.id);
  expect(view).toMatchObject({ state: "stopped", cancelled: 3, reason: "the customer left" });
});

test("a part that another session has locked is cancelled once it is free", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const flow = await stint.flow("f", {
    reserve: entry(reserve, order),
    charge: entry(charge, order, { after: ["reserve"] }),
  });
  const client = await adminClient(fresh.url);
  await client.query("begin");
  await client.query(`select from "${fresh.schema}".job where id = $1 for update`, [flow.jobs.reserve.id]);
  const cancelled = stint.flows.cancel(flow.id);
  await until(async () => (await stint.get(flow.jobs.charge))?.state === "cancelled", {
    message: "the free part is cancelled",
  });
  await client.query("rollback");
  await client.end();

  expect(await cancelled).toBe(2);
  expect((await stint.get(flow.jobs.reserve))?.state).toBe("cancelled");
});

test("cancelling the first job of a chain cancels its last", async () => {
  const stint = (await freshSchema()).client();
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [handle(charge, ({ continueWith }) => continueWith(ship, order, { delay: "1h" }))],
  });
  await worker.start();
  const job = await stint.enqueue(charge, order);
  await until(async () => (await stint.get(job))?.state === "succeeded", { message: "the chain continues" });

  expect(await stint.cancel(job.id, { reason: "no more" })).toBe("cancelled");
  await expect(stint.waitFor(job, { timeout: "60s" })).rejects.toThrow("no more");
});
