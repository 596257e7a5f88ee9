import { expect, test } from "vitest";
import { defineJob, entry, handle, typed, type Stint, type WorkerOptions } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { startCutProxy, type CutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { startSlowProxy } from "../support/slow-proxy.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { inLab, slice } from "../support/lab.ts";

const inQueue = (queue: string) => defineJob("work", { payload: typed<object>(), queue });
const work = inQueue("q00000");
const queuesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `q${String(n).padStart(5, "0")}`);

type Ran = { id: string; queue: string };
type Large = { stint: Stint; proxy: CutProxy; ran: Ran[]; count: (name: string) => number };

/** A worker with one pool of many queues; its statements are counted, and may have a long way. */
async function startLarge(
  fresh: Fresh,
  pool: WorkerOptions["pools"][string],
  {
    roundTripMs = 0,
    wake = "none",
    ...options
  }: Partial<WorkerOptions> & { roundTripMs?: number; wake?: "none" | "notify" } = {},
): Promise<Large> {
  // Once an hour a worker samples everything; not now.
  await fresh.sql(`update stint.tally_fold set framed_at = 'infinity'`);
  const proxy = await startCutProxy(fresh.url);
  const database = roundTripMs === 0 ? proxy.url : await startSlowProxy({ roundTripMs, url: proxy.url });
  const stint = fresh.client({ database, wake });
  const ran: Ran[] = [];
  await startWorker(stint, {
    pools: { many: pool },
    handlers: [handle(work, ({ id, queue }) => void ran.push({ id, queue }))],
    ...options,
  });
  return { stint, proxy, ran, count: (name) => proxy.count(`${fresh.schema}.${name}`) };
}

/** Statements that look for work. Heartbeats and figures are sent by the clock: on a busy machine, some between any two idle checks. */
const looks = ["claim", "ready-queues", "promote", "rescue"];

/** Its first looks around are over: only the idle check still looks for work. */
async function idle({ count }: Large): Promise<void> {
  const others = (): number => looks.reduce((sum, name) => sum + count(name), 0);
  for (let before = -1; before !== others();) {
    before = others();
    const enough = count("idle-check") + 4;
    await until(() => count("idle-check") >= enough, { message: "it looks around four times" });
  }
}

const fill = async (fresh: Fresh, queues: readonly string[], each: number): Promise<void> => {
  const entries = Array.from({ length: each }, () => queues.map((queue) => entry(inQueue(queue), {}))).flat();
  for (let from = 0; from < entries.length; from += 5_000)
    await fresh.client({ wake: "none" }).enqueueMany(entries.slice(from, from + 5_000));
};

test.each(slice([500, 5_000], (size) => size === 5_000))(
  "an idle worker finds a job in the last of %i queues with two statements",
  async (size) => {
    const fresh = await freshSchema();
    const queues = queuesOf(size);
    const large = await startLarge(fresh, { queues, slots: 10 }, { roundTripMs: 10 });
    await idle(large);
    const before = large.count("claim") + large.count("ready-queues");
    const last = queues.at(-1)!;
    const { id } = await fresh.client({ wake: "none" }).enqueue(inQueue(last), {});
    await until(() => large.ran.length > 0, { message: "the job runs" });

    expect(large.ran).toEqual([{ id, queue: last }]);
    // The idle check named the queue, and one claim took the job; a claim for the look-around of a worker that has just worked may follow.
    expect(large.count("claim") + large.count("ready-queues") - before).toBeLessThanOrEqual(4);
  },
);

test("a wake for the last of 5,000 queues leads to one claim", async () => {
  const fresh = await freshSchema();
  const queues = queuesOf(5_000);
  const large = await startLarge(
    fresh,
    { queues, slots: 10 },
    { roundTripMs: 10, wake: "notify", poll: "10m", rescueEvery: "10m" },
  );
  await until(async () => (await fresh.sql("select from stint.worker where listening")).length === 1, {
    message: "the worker listens for wakes",
  });
  await fresh.client().enqueue(inQueue(queues.at(-1)!), {});
  await until(() => large.ran.length > 0, { message: "the job runs" });

  // The name ends there; others begin with it. No queue was asked before the wake, nor since.
  expect(large.count("claim\0")).toBe(1);
  expect(large.count("claim-pools")).toBe(0);
});

test("an idle worker of 5,000 queues sends no more than one of a single queue", async () => {
  const fresh = await freshSchema();
  const large = await startLarge(fresh, { queues: queuesOf(5_000), slots: 10 });
  await idle(large);
  const searches = (): number => looks.reduce((sum, name) => sum + large.count(name), 0);
  const before = searches();
  const enough = large.count("idle-check") + 10;
  await until(() => large.count("idle-check") >= enough, { message: "it looks around ten times" });

  // Full searches come ever later, by the clock: on a busy machine one or two fall into these ten looks.
  expect(searches() - before).toBeLessThan(5);
});

test("many queues of three jobs are drained with few claims over a slow network", async () => {
  const fresh = await freshSchema();
  const size = inLab ? 5_000 : 1_500;
  const queues = queuesOf(size);
  await fill(fresh, queues, 3);
  const large = await startLarge(fresh, { queues, slots: 20 }, { roundTripMs: 10 });
  await until(() => large.ran.length === 3 * size, { message: "all have run", deadlineMs: 100_000 });

  expect(new Set(large.ran.map(({ id }) => id)).size).toBe(3 * size);
  expect(large.count("claim")).toBeLessThan(size / 5);
});

test.each(slice([2, 40, 500], (size) => size === 500))(
  "of %i queues none waits behind a busy one",
  async (size) => {
    const fresh = await freshSchema();
    const queues = queuesOf(size);
    await fill(fresh, [queues[0]!], 3_000);
    const order: string[] = [];
    const { stint } = await startLarge(
      fresh,
      { queues, slots: 2 },
      {
        handlers: [
          handle(work, async ({ queue }) => {
            order.push(queue);
            // The others get their jobs, untold, while this one is busy.
            if (order.length === 100) await fill(fresh, queues.slice(1).slice(-50), 1);
            await new Promise((resolve) => setTimeout(resolve, 2));
          }),
        ],
      },
    );
    const others = Math.min(size - 1, 50);
    await until(() => order.filter((queue) => queue !== queues[0]).length === others, {
      message: "the others had their turn",
      deadlineMs: 60_000,
    });

    const [counts] = await fresh.sql<{ ready: number }>(
      `select count(*)::integer as ready from stint.job where state = 'ready' and queue = $1`,
      [queues[0]],
    );
    expect(counts!.ready).toBeGreaterThan(0);
    await stint.close();
  },
);

test("two workers of one large pool share it: every job runs once, and both run some", async () => {
  const fresh = await freshSchema();
  const queues = queuesOf(500);
  await fill(fresh, queues, 6);
  const pool = { queues, slots: 10 };
  const both = gate();
  const ran: string[][] = [[], []];
  for (const own of ran)
    await startLarge(fresh, pool, {
      handlers: [
        handle(work, async ({ id }) => {
          own.push(id);
          if (ran.every((one) => one.length > 0)) both.open();
          // The first holds what fits its slots until the second has some, too.
          await both.opened;
        }),
      ],
    });
  await until(() => ran.flat().length >= 3_000, { message: "all have run", deadlineMs: 50_000 });

  expect(new Set(ran.flat()).size).toBe(3_000);
  expect(ran.flat()).toHaveLength(3_000);
});

test("a large pool is drained behind a forgotten transaction", async () => {
  const fresh = await freshSchema();
  const queues = queuesOf(500);
  const forgotten = await adminClient(fresh.url);
  await forgotten.query("begin isolation level repeatable read");
  await forgotten.query("select 1");
  await fill(fresh, queues, 4);
  const large = await startLarge(fresh, { queues, slots: 20 });
  await until(() => large.ran.length === 2_000, { message: "all have run", deadlineMs: 60_000 });
  await fill(fresh, [queues.at(-1)!], 1);
  await until(() => large.ran.length === 2_001, { message: "the last one, too" });
  await forgotten.query("rollback");
  await forgotten.end();

  expect(new Set(large.ran.map(({ id }) => id)).size).toBe(2_001);
});

test("a pattern serves matching queues, also new ones; exact names go first", async () => {
  const fresh = await freshSchema();
  const { seen, worker } = await startPattern(fresh);
  const stint = fresh.client();
  for (const queue of ["tenant-1", "tenant-vip", "tenant-2"]) await stint.enqueue(inQueue(queue), {});
  const elsewhere = await stint.enqueue(inQueue("tenants"), {});
  await until(() => seen.length === 3, { message: "those of tenants run" });

  expect(seen.sort()).toEqual([
    "tenant-1 beside 1 of tenants",
    "tenant-2 beside 2 of tenants",
    "tenant-vip beside 1 of vip",
  ]);
  expect(await stint.get(elsewhere.id)).toMatchObject({ state: "ready" });
  expect(worker.pools.map(({ pool, slots }) => [pool, slots])).toEqual([
    ["tenants", 3],
    ["vip", 1],
  ]);
});

/** A worker with a pool for all tenants and one for a named tenant. Its handlers run until the test ends, and report their pool. */
async function startPattern(
  fresh: Fresh,
): Promise<{ seen: string[]; worker: Awaited<ReturnType<typeof startWorker>>["worker"] }> {
  const seen: string[] = [];
  const { worker } = await startWorker(fresh.client(), {
    pools: {
      tenants: { queues: ["tenant-*", "q00000"], slots: 3 },
      vip: { queues: ["tenant-vip"], slots: 1 },
    },
    handlers: [
      handle(work, async ({ queue, signal }) => {
        const pool = queue === "tenant-vip" ? "vip" : "tenants";
        const busy = worker.pools.find((one) => one.pool === pool)?.busy;
        seen.push(`${queue} beside ${busy} of ${pool}`);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      }),
    ],
  });
  return { seen, worker };
}

test("a quarantined job in a queue that only a pattern matches runs alone", async () => {
  const fresh = await freshSchema();
  await fill(fresh, ["tenant-1"], 1);
  await fresh.sql(`update stint.job set state = 'parked', park_reason = 'quarantine', crashes = 1`);
  await fill(fresh, ["tenants"], 1);
  await fresh.sql(
    `update stint.job set state = 'parked', park_reason = 'quarantine', crashes = 1 where state = 'ready'`,
  );
  const { ran } = await startLarge(fresh, { queues: ["tenant-*", "q00000"], slots: 2 });
  await until(() => ran.length === 1, { message: "the suspect runs" });

  expect(ran.map(({ queue }) => queue)).toEqual(["tenant-1"]);
});

test("own queues are found among more foreign ones than one search returns", async () => {
  const fresh = await freshSchema();
  const queues = queuesOf(1_500);
  const own = queues.filter((_, n) => n % 30 === 29);
  await fill(fresh, queues, 1);
  const { ran } = await startLarge(fresh, { queues: [...own, "q00000"], slots: 5 });
  await until(() => ran.length === own.length + 1, { message: "its own jobs run" });

  expect(ran.map(({ queue }) => queue).sort()).toEqual(["q00000", ...own].sort());
});
