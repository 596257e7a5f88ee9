import { afterAll, beforeAll, expect, test } from "vitest";
import { defineJob, entry, handle, typed, type Stint } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, sharedSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { countedServer, type CountedServer, type Sent } from "./counted-server.ts";
import { planFaults } from "./plan-faults.ts";
import { commits, written, type Written } from "./written.ts";

const work = defineJob("work", { payload: typed<{ text: string }>() });
const payload = { text: "x".repeat(88) };

/** Jobs of the two tests that enqueue many. Thousands show what tens of thousands do. */
const jobs = inLab ? 10_000 : 2_000;

let server: CountedServer;
beforeAll(async () => {
  server = await countedServer();
});
afterAll(async () => {
  await server.remove();
});

const shared = sharedSchema(() => server.url);

type Cost = { sent: Sent; written: Written; commits: number };

/** What it costs to enqueue in this way, under a role of its own. */
async function costOf(
  fresh: Fresh,
  role: string,
  enqueue: (stint: Stint, url: string) => Promise<unknown>,
): Promise<Cost> {
  const url = await server.urlAs(role);
  const stint = fresh.client({ database: url });
  const from = await server.position();
  await enqueue(stint, url);
  const to = await server.position();
  return {
    sent: await server.sentBy(role),
    written: await written(fresh, from, to),
    commits: await commits(fresh, from, to),
  };
}

/** A job that is ready is a row, an entry among the ids and one among the ready. */
function readyJobs(count: number): Written {
  return { "job INSERT": count, "job_pkey entry": count, "job_ready entry": count };
}

/** Tally writes: a row and an index entry for each queue, kind and priority of a statement. */
function deltas(count: number): Written {
  return { "tally_delta INSERT": count, "tally_delta_xid entry": count };
}

test("ten callers share their commits, and each job is a row and two index entries", async () => {
  const fresh = shared();

  const cost = await costOf(fresh, "callers", async (stint) => {
    const callers = Array.from({ length: 10 }, async () => {
      for (let sent = 0; sent < jobs / 10; sent++) await stint.enqueue(work, payload);
    });
    await Promise.all(callers);
  });

  // With two statements out and ten callers who do nothing but wait, there are five in each, if they split evenly.
  const statements = cost.sent["enqueue-new"]?.calls ?? 0;
  expect(statements).toBeLessThanOrEqual(jobs / 3);
  expect(cost.commits).toBe(statements);
  expect(Object.keys(cost.sent).sort()).toEqual(["enqueue-new", "schema-version", "settings"]);
  // `on conflict` writes a row speculatively, then confirms it: two WAL records.
  expect(cost.written).toEqual({
    ...readyJobs(jobs),
    "job HEAP_CONFIRM": jobs,
    ...deltas(statements),
  });
  expect(planFaults(await server.plansOf("callers"))).toEqual([]);
});

test("many jobs in one call are one statement and one commit", async () => {
  const fresh = shared();

  const cost = await costOf(fresh, "bulk", async (stint) => {
    for (let call = 0; call < 10; call++)
      await stint.enqueueMany(Array.from({ length: jobs / 10 }, () => entry(work, payload)));
  });

  expect(cost.sent["enqueue-new"]?.calls).toBe(10);
  expect(cost.commits).toBe(10);
  expect(cost.written).toEqual({ ...readyJobs(jobs), ...deltas(10) });
  expect(planFaults(await server.plansOf("bulk"))).toEqual([]);
});

test("enqueueMany writes one tally row per kind, queue and priority", async () => {
  const fresh = shared();
  const kinds = ["x", "y"].map((kind) =>
    defineJob(kind, { queue: `q-${kind}`, payload: typed<{ text: string }>() }),
  );

  const many = await costOf(fresh, "several-kinds", async (stint) => {
    await stint.enqueueMany(Array.from({ length: 200 }, (_, n) => entry(kinds[n % 2]!, payload)));
  });
  const sorts = await costOf(fresh, "several-priorities", async (stint) => {
    await stint.enqueueMany(
      Array.from({ length: 60 }, (_, n) => entry(kinds[n % 2]!, payload, { priority: n % 3 })),
    );
  });

  expect(many.written).toEqual({ ...readyJobs(200), ...deltas(2) });
  expect(sorts.written).toEqual({ ...readyJobs(60), "job HEAP_CONFIRM": 60, ...deltas(6) });
});

test("in a caller's transaction an enqueue is one statement and no commit of its own", async () => {
  const fresh = shared();

  const cost = await costOf(fresh, "transaction", async (stint, url) => {
    const client = await adminClient(url);
    await client.query("begin");
    for (let sent = 0; sent < 100; sent++) await stint.in(client).enqueue(work, payload);
    await client.query("commit");
    await client.end();
  });

  expect(cost.sent["enqueue-new"]?.calls).toBe(100);
  expect(cost.commits).toBe(1);
  expect(cost.written).toEqual({ ...readyJobs(100), "job HEAP_CONFIRM": 100, ...deltas(100) });
});

test("a scheduled job has one index entry for its due time; keys have their own", async () => {
  const fresh = shared();

  const later = await costOf(fresh, "later", async (stint) => {
    await stint.enqueueMany(Array.from({ length: 1_000 }, () => entry(work, payload, { delay: "1h" })));
  });
  const keyed = await costOf(fresh, "keyed", async (stint) => {
    await stint.enqueueMany(
      Array.from({ length: 1_000 }, (_, n) =>
        entry(work, payload, { key: `k${n}`, dedupe: { key: `k${n}` } }),
      ),
    );
  });

  expect(later.written).toEqual({
    "job INSERT": 1_000,
    "job HEAP_CONFIRM": 1_000,
    "job_pkey entry": 1_000,
    "job_due entry": 1_000,
    ...deltas(1),
  });
  expect(keyed.written).toEqual({
    ...readyJobs(1_000),
    "job HEAP_CONFIRM": 1_000,
    "job_key entry": 1_000,
    "job_dedupe entry": 1_000,
    ...deltas(1),
  });
  expect(planFaults(await server.plansOf("later"))).toEqual([]);
  expect(planFaults(await server.plansOf("keyed"))).toEqual([]);
});

/** A worker with ten slots, under a role of its own; its handlers wait until the test is over. */
async function startWorker(fresh: Fresh, role: string): Promise<{ entered: () => number; open: () => void }> {
  const { opened, open } = gate();
  let entered = 0;
  const worker = fresh.client({ database: await server.urlAs(role) }).worker({
    pools: { default: 10 },
    signals: false,
    handlers: [
      handle(work, async () => {
        entered += 1;
        await opened;
      }),
    ],
  });
  await worker.start();
  return { entered: () => entered, open };
}

async function burst(stint: Stint): Promise<void> {
  await Promise.all(Array.from({ length: 1_000 }, async () => await stint.enqueue(work, payload)));
}

test("statements within an enqueue are planned anew only for their first executions", async () => {
  const fresh = await freshSchema(server.url);
  // The worker listens, and never has a reason to ask for no more wakes.
  const elsewhere = defineJob("elsewhere", { queue: "elsewhere", payload: typed<{ text: string }>() });
  const { open } = await startWorker(fresh, "woken");
  await until(async () => (await fresh.sql("select from stint.worker where listening")).length === 1, {
    message: "the worker listens",
  });
  const client = await adminClient(await server.urlAs("planned"));
  await client.query("set pg_stat_statements.track = 'all'; set pg_stat_statements.track_planning = on");
  for (let n = 0; n < 20; n++) {
    for (const options of [{}, { key: `key ${n}` }, { dedupe: { key: `key ${n}` } }]) {
      await client.query("begin");
      await fresh.client().in(client, { wake: true }).enqueue(elsewhere, payload, options);
      await client.query("commit");
    }
  }
  const plans = await client.query<{ query: string; plans: number }>(
    `select query, plans::integer
     from pg_stat_statements
     where not toplevel and calls >= 20
     order by plans desc`,
  );
  await client.end();
  open();

  expect(plans.rows.some(({ query }) => query.includes("pg_notify"))).toBe(true);
  // Postgres compares five plans for given values with the plan for any values.
  expect(plans.rows.filter(({ plans: count }) => count > 10)).toEqual([]);
});

test("a full worker gets no wake", async () => {
  const fresh = await freshSchema(server.url);
  await fresh.client().enqueueMany(Array.from({ length: 10 }, () => entry(work, payload)));
  const { entered, open } = await startWorker(fresh, "saturated");
  await until(() => entered() === 10, { message: "every slot is taken" });

  const { sent } = await costOf(fresh, "to-the-saturated", burst);
  open();

  expect(Object.keys(sent).sort()).toEqual(["enqueue-new", "schema-version", "settings"]);
});

test("1,000 concurrent enqueues wake an idle worker a few times", async () => {
  const fresh = await freshSchema(server.url);
  const { entered, open } = await startWorker(fresh, "idle");
  await until(
    async () => {
      // It records this twice: when it starts, and when it listens.
      const said = (await server.sentBy("idle"))["heartbeat"]?.calls ?? 0;
      return said >= 2 && (await fresh.sql("select from stint.worker where listening")).length === 1;
    },
    { message: "the worker listens for wakes" },
  );

  const { sent } = await costOf(fresh, "to-the-idle", async (stint) => {
    await burst(stint);
    await until(() => entered() === 10, { message: "the worker took up the work" });
    await stint.close();
  });
  open();

  // All thousand come before anything is sent, and hundreds go in a statement. Each statement's jobs get one wake: the enqueue
  // carries it, or, within 10 ms of the wake before, a statement of its own does.
  const { "enqueue-new": enqueues, wake } = sent;
  expect(enqueues?.calls).toBeLessThanOrEqual(10);
  expect(wake?.calls ?? 0).toBeLessThanOrEqual(enqueues?.calls ?? 0);
});
