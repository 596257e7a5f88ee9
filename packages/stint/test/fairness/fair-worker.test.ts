import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, InvalidOptionError, typed, type QueueSettings } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { adminClient } from "../support/database.ts";
import { freshSchema, sharedSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { queue: "shared", payload: typed<{ n?: number }>() });
const queues = { shared: { fair: "tenant" } } as const;
const shared = sharedSchema();

const jobs = (tenant: string, count: number) =>
  Array.from({ length: count }, () => entry(work, {}, { tenant }));

/** How many live jobs take part in the turns of their tenants, and how many do not. */
async function marked(fresh: Fresh): Promise<{ marked: number; unmarked: number }> {
  const [row] = await fresh.sql<{ marked: number; unmarked: number }>(
    `select count(fair_tenant)::integer as marked, (count(*) - count(fair_tenant))::integer as unmarked from stint.job`,
  );
  return row!;
}

test("small tenants finish while a large one has jobs for a long time", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ queues });
  await fresh.client().queueSettings.set("shared", { fair: "tenant" }, { reason: "before the first worker" });
  await stint.enqueueMany(jobs("large", 600));
  for (const tenant of ["a", "b", "c", "d"]) await stint.enqueueMany(jobs(tenant, 10));
  const order: string[] = [];
  await startWorker(stint, {
    pools: { shared: 2 },
    prefetch: false,
    handlers: [handle(work, ({ tenant }) => void order.push(tenant ?? ""))],
  });
  await until(() => order.filter((tenant) => tenant !== "large").length === 40, {
    message: "the small tenants are done",
    deadlineMs: 60_000,
  });

  // In turns, the fortieth job of the small tenants is about the fiftieth of all. One of 32 jobs is the oldest one.
  const last = order.findLastIndex((tenant) => tenant !== "large");
  expect(last).toBeLessThan(70);
});

test("two workers start jobs in the proportion of the weights", async () => {
  const fresh = await freshSchema();
  const weighted = { shared: { fair: { by: "tenant", weights: { gold: 3, "*": 1 } } } } as const;
  const stint = fresh.client({ queues: weighted });
  await fresh.client().queueSettings.set("shared", weighted.shared, { reason: "before the first worker" });
  await stint.enqueueMany([...jobs("free", 300), ...jobs("gold", 900)]);
  const order: string[] = [];
  const handlers = [handle(work, ({ tenant }) => void order.push(tenant ?? ""))];
  for (const slots of [1, 3])
    await startWorker(stint, { pools: { shared: slots }, prefetch: false, handlers });
  await until(() => order.length >= 800, { message: "800 jobs have started", deadlineMs: 120_000 });

  // Both tenants have jobs throughout. One of 32 jobs is the oldest one, of `free`; a turn may be cut off at each worker's end.
  const gold = order.slice(0, 800).filter((tenant) => tenant === "gold").length;
  expect(gold).toBeLessThanOrEqual(600 + 8);
  expect(gold).toBeGreaterThanOrEqual(600 - 800 / 32 - 8);
});

test("every way to make a job ready puts it into the turns", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "test" });
  await stint.enqueue(work, {}, { tenant: "a" });
  await stint.enqueue(work, {});
  await stint.enqueue(work, {}, { tenant: "a", dedupe: { key: "k" } });
  await stint.enqueue(work, {}, { tenant: "a", delay: "1h" });
  await stint.enqueueMany(Array.from({ length: 150 }, () => entry(work, {})));
  await fresh.sql(`select stint.enqueue('work', '{}', '{"queue": "shared", "tenant": "a"}')`);
  await fresh.sql(
    `select stint.enqueue('work', '{}', '{"queue": "shared", "tenant": "a", "dedupe": {"key": "w", "until": "1h"}}')`,
  );

  expect(await marked(fresh)).toEqual({ marked: 156, unmarked: 0 });
});

test("a replayed job takes part in the turns", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "test" });
  const { id } = await stint.enqueue(work, {}, { tenant: "a", attempts: 1 });
  const { worker } = await startWorker(stint, {
    pools: { shared: 1 },
    handlers: [
      handle(work, () => {
        throw new Error("no");
      }),
    ],
  });
  await until(async () => (await stint.get(id))?.state === "dead", { message: "it is dead" });
  await worker.stop({ drain: 0, abort: 0 });
  await stint.replay(id, { reason: "again" });

  expect(await marked(fresh)).toEqual({ marked: 1, unmarked: 0 });
});

test("jobs of other queues pay nothing for fair ones", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "test" });
  await stint.enqueueMany([entry(defineJob("other", { payload: typed<object>() }), {}, { tenant: "a" })]);

  expect(await marked(fresh)).toEqual({ marked: 0, unmarked: 1 });
});

test("a queue that becomes fair takes up the jobs it has", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueueMany(jobs("large", 30));
  await stint.enqueue(work, {}, { tenant: "a", delay: "1h" });
  const other = defineJob("other", { payload: typed<object>() });
  await startWorker(stint, { handlers: [handle(other, () => undefined)] });
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "one tenant fills it" });

  await until(async () => (await marked(fresh)).unmarked === 0, {
    message: "all jobs take part",
    deadlineMs: 60_000,
  });
  await until(async () => (await fresh.sql("select from stint.fair_backlog")).length === 0, {
    message: "nothing is left to take up",
    deadlineMs: 60_000,
  });
  expect(await marked(fresh)).toEqual({ marked: 31, unmarked: 0 });
});

test("a job of a transaction that did not see the setting runs all the same", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const old = await adminClient();
  onTestFinished(async () => await old.end());
  await old.query("begin isolation level repeatable read");
  await old.query("select 1");
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "test" });
  await old.query(
    forSchema(`select stint.enqueue('work', '{"n": 1}', '{"queue": "shared", "tenant": "a"}')`, fresh.schema),
  );
  await old.query("commit");
  const seen: (number | undefined)[] = [];
  // The queue never becomes empty: each job enqueues the next.
  await stint.enqueueMany(jobs("large", 20));
  await startWorker(stint, {
    pools: { shared: 2 },
    prefetch: false,
    handlers: [
      handle(work, async ({ payload }) => {
        seen.push(payload.n);
        if (payload.n === undefined) await stint.enqueue(work, {}, { tenant: "large" });
      }),
    ],
  });

  await until(() => seen.includes(1), { message: "it ran", deadlineMs: 60_000 });
  expect(seen.filter((n) => n === 1)).toHaveLength(1);
});

test("a worker follows a live change of the setting", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let busy = gate();
  const order: string[] = [];
  await startWorker(stint, {
    pools: { shared: 1 },
    prefetch: false,
    handlers: [
      handle(work, async ({ tenant, payload }) => {
        if (payload.n === 0) await busy.opened;
        else order.push(tenant ?? "");
      }),
    ],
  });
  const round = async (): Promise<string[]> => {
    order.length = 0;
    busy = gate();
    const { id } = await stint.enqueue(work, { n: 0 });
    await until(async () => (await stint.get(id))?.state === "running", {
      message: "the slot is taken",
    });
    await stint.enqueueMany([...jobs("x", 4), ...jobs("y", 4)]);
    // A worker reads the settings once a second while there are any.
    await until(
      async () => {
        const [row] = await fresh.sql<{ late: boolean }>(
          "select exists (select from stint.fair_backlog) as late",
        );
        return row?.late === false;
      },
      { message: "the setting is known" },
    );
    busy.open();
    await until(() => order.length === 8, { message: "all ran" });
    return [...order];
  };
  expect(await round()).toEqual(["x", "x", "x", "x", "y", "y", "y", "y"]);
  await stint.queueSettings.set("shared", { fair: "tenant" }, { reason: "on" });
  expect((await round()).slice(0, 2).sort()).toEqual(["x", "y"]);
});

test("a lost response to a fair claim: the worker finds its jobs, no crash counts", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false, wake: "none", queues });
  await fresh.client().queueSettings.set("shared", { fair: "tenant" }, { reason: "test" });
  const { id } = await fresh.client().enqueue(work, {}, { tenant: "a" });
  const swallowed = proxy.cutAt("/* stint:claim-fair */", "unanswered");
  const runs: number[] = [];
  await startWorker(stint, {
    pools: { shared: 2 },
    handlers: [handle(work, ({ fence }) => void runs.push(fence.epoch))],
  });
  await swallowed;
  await stint.waitFor(id, { timeout: "60s" });

  expect(runs).toEqual([1]);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
});

const wrong: [string, unknown][] = [
  ["a word", "tennant"],
  ["true", true],
  ["a number", 1],
  ["an array", []],
  ["an unknown key", { by: "tenant", wieghts: {} }],
  ["another sharer", { by: "kind" }],
  ["no sharer", { weights: {} }],
  ["weight 0", { by: "tenant", weights: { a: 0 } }],
  ["a negative weight", { by: "tenant", weights: { a: -1 } }],
  ["a fraction", { by: "tenant", weights: { a: 1.5 } }],
  ["a weight as text", { by: "tenant", weights: { a: "2" } }],
  ["a huge weight", { by: "tenant", weights: { a: 1e12 } }],
  ["an empty tenant", { by: "tenant", weights: { "": 1 } }],
  ["weights in an array", { by: "tenant", weights: [1] }],
  [
    "too many weights",
    { by: "tenant", weights: Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`t${n}`, 1])) },
  ],
];

test.each(wrong)("fair: %s is refused and changes nothing", async (_, fair) => {
  const fresh = shared();
  const stint = fresh.client();
  const set = stint.queueSettings.set("bad", { fair } as never, { reason: "test" });
  await expect(set).rejects.toThrow(InvalidOptionError);
  expect(() => fresh.client({ queues: { bad: { fair } as QueueSettings } })).toThrow(InvalidOptionError);
  await expect(
    fresh.sql(`select stint.set_queue('bad', jsonb_build_object('fair', $1::jsonb), 'test')`, [
      JSON.stringify(fair),
    ]),
  ).rejects.toMatchObject({ code: "22023" });
  expect(await fresh.sql(`select from stint.queue where name = 'bad'`)).toEqual([]);
});

test("a weight that is no number is refused", () => {
  for (const weight of [Number.NaN, Number.POSITIVE_INFINITY])
    expect(() =>
      shared().client({ queues: { bad: { fair: { by: "tenant", weights: { a: weight } } } } }),
    ).toThrow(InvalidOptionError);
});

test("fair and aging together are refused, in code, live and in SQL", async () => {
  const fresh = shared();
  const both = { fair: "tenant", aging: "10m" } as const;
  expect(() => fresh.client({ queues: { both } })).toThrow(InvalidOptionError);
  const stint = fresh.client();
  await expect(stint.queueSettings.set("both", both, { reason: "test" })).rejects.toThrow(InvalidOptionError);
  await stint.queueSettings.set("both", { fair: "tenant" }, { reason: "test" });
  await expect(fresh.sql(`select stint.set_queue('both', '{"aging": "10m"}', 'test')`)).rejects.toMatchObject(
    { code: "22023" },
  );
  expect((await stint.queueSettings.list()).find(({ queue }) => queue === "both")).toMatchObject({
    fair: { by: "tenant", weights: {} },
    agingMs: null,
  });
});
