import { afterAll, beforeAll, expect, test } from "vitest";
import { defineJob, handle, entry, steps, typed, type HandlerContext, type Tx } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { abortOf, startWorker } from "../support/watch.ts";
import { bystander, scripted, startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";
import { slice } from "../support/lab.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer();
});
afterAll(async () => {
  await server.remove();
});

type Load = { fresh: Fresh; ids: string[]; long: string[]; workers: WorkerProcess[] };

/** Two processes with work for a while. The outage begins when some of it is done and some is not. */
async function underLoad(lease: string): Promise<Load> {
  const fresh = await freshSchema(server.url);
  const stint = fresh.client();
  const more = async (count: number) =>
    await stint.enqueueMany(Array.from({ length: count }, () => entry(scripted, { do: "succeed" })));
  const jobs = await more(100);
  const start = () => startWorkerProcess(fresh, { worker: { pools: { default: 5 }, lease } });
  const workers = await Promise.all([start(), start()]);
  // Long enough for their leases to be renewed.
  const long = await stint.enqueueMany(
    Array.from({ length: 2 }, () => entry(bystander, { do: "hang" }, { priority: -1 })),
  );
  // The first to be there may be done with all of it before the other is.
  await until(
    async () => {
      jobs.push(...(await more(100)));
      return workers.every((worker) => ran(worker) > 20);
    },
    { message: "the load runs" },
  );
  jobs.push(...(await more(300)));
  return { fresh, ids: [...jobs, ...long].map(({ id }) => id), long: long.map(({ id }) => id), workers };
}

function ran(worker: WorkerProcess): number {
  return worker.reports.filter(({ event }) => event === "settled").length;
}

/** Waits until all jobs have succeeded, and checks that the workers still serve. Returns how each process exited. */
async function untilAllSucceeded({ fresh, ids, long, workers }: Load): Promise<unknown[]> {
  await until(
    async () => {
      for (const id of long) for (const worker of workers) worker.go(id);
      return (await fresh.sql("select from stint.job limit 1")).length === 0;
    },
    { message: "every job has ended" },
  );
  const ended = await fresh.sql<{ id: string; state: string }>("select id, state from stint.history");
  expect(ended.map(({ id }) => id).sort()).toEqual(ids.toSorted());
  expect(new Set(ended.map(({ state }) => state))).toEqual(new Set(["succeeded"]));
  const stint = fresh.client();
  const more = await stint.enqueue(scripted, { do: "succeed" });
  await stint.waitFor(more, { timeout: "60s" });
  for (const worker of workers) worker.kill("SIGTERM");
  return await Promise.all(workers.map(({ ended }) => ended));
}

const unharmed = [
  { code: 0, signal: null },
  { code: 0, signal: null },
];

test("workers survive a stop and start of Postgres under load, and every job ends", async () => {
  const load = await underLoad("3s");
  await server.stop("immediate");
  await server.start();

  expect(await untilAllSucceeded(load)).toEqual(unharmed);
});

const owned = { payload: typed<object>(), backoff: steps("1h"), attempts: 1 };
const plain = defineJob("plain", owned);
const atomic = defineJob("atomic", { ...owned, atomic: true });

test.each(slice(["fast", "immediate"] as const, (mode) => mode === "immediate"))(
  "a restart (%s) during handler transactions spends no attempt, doubles no write",
  async (mode) => {
    const fresh = await freshSchema(server.url);
    await fresh.sql("create table stint.note (kind text, part integer)");
    const stint = fresh.client();
    const restarted = gate();
    let inside = 0;
    const write = async (tx: Tx, { kind, fence }: HandlerContext): Promise<void> => {
      const insert = `insert into "${fresh.schema}".note values ($1, $2)`;
      await tx.query(insert, [kind, 1]);
      inside += 1;
      if (fence.epoch === 1) await restarted.opened;
      await tx.query(insert, [kind, 2]);
    };
    await startWorker(stint, {
      handlers: [
        handle(plain, async (context) => await context.complete(async (tx) => await write(tx, context))),
        handle(atomic, async (context) => await write(context.tx, context)),
      ],
    });
    const jobs = await stint.enqueueMany([entry(plain, {}), entry(atomic, {})]);
    await until(() => inside === 2, { message: "both handlers are in their transactions" });
    await server.stop(mode);
    await server.start();
    restarted.open();

    for (const { id } of jobs) await stint.waitFor(id, { timeout: "60s" });
    for (const { id } of jobs)
      expect(await stint.get(id)).toMatchObject({
        state: "succeeded",
        attempts: 1,
        faults: 1,
        crashes: 0,
        log: [{ outcome: "released" }, { outcome: "succeeded" }],
      });
    expect(await fresh.sql("select kind, count(*)::int from stint.note group by kind order by kind")).toEqual(
      [
        { kind: "atomic", count: 2 },
        { kind: "plain", count: 2 },
      ],
    );
  },
);

const terminated = [
  { name: "stint", lease: "3s", mayCrash: true },
  // Their jobs are never in doubt: a lease outlives a lost connection, and a wake is only a hint.
  { name: "stint leases", lease: "8s", mayCrash: false },
  { name: "stint wakes", lease: "8s", mayCrash: false },
];

// The names of all connections begin with "stint": its case ends those of the others, too.
test.each(slice(terminated, ({ name }) => name === "stint"))(
  "repeated terminations of connections named $name lose no job and end no process",
  async ({ name, lease, mayCrash }) => {
    const load = await underLoad(lease);
    for (let round = 0; round < 4; round++) {
      await until(() => server.terminateConnections(name), {
        message: "there are such connections, to be ended",
      });
    }

    expect(await untilAllSucceeded(load)).toEqual(unharmed);
    const crashed = await load.fresh.sql("select from stint.history where crashes > 0");
    expect(mayCrash || crashed.length === 0).toBe(true);
  },
);

test("health shows the time since the last claim reply, and ignores full workers", async () => {
  const fresh = await freshSchema(server.url);
  const stint = fresh.client();
  const hang = defineJob("hang", { payload: typed<object>() });
  const { worker, seen } = await startWorker(stint, {
    pools: { default: 1 },
    handlers: [handle(hang, untilAborted)],
  });
  await until(() => worker.sinceLastLookMs! < 500, { message: "it claims" });
  await server.stop("immediate");
  await until(() => worker.sinceLastLookMs! > 1_000, { message: "the outage shows" });
  await server.start();
  await until(() => worker.sinceLastLookMs! < 500, { message: "it claims again" });

  await stint.enqueue(hang, {});
  await seen("claimed");
  // It falls again and again, though nothing can be claimed.
  let last = 0;
  let falls = 0;
  await until(() => {
    const since = worker.sinceLastLookMs!;
    falls += since < last ? 1 : 0;
    last = since;
    return falls === 3;
  });
  expect(worker.running).toBe(1);
});

async function untilAborted({ signal }: { signal: AbortSignal }): Promise<never> {
  await abortOf(signal);
  throw signal.reason;
}

test("stop during an outage ends before its deadline, and the job survives", async () => {
  const fresh = await freshSchema(server.url);
  const stint = fresh.client();
  const hang = defineJob("hang", { payload: typed<object>() });
  const { worker, seen } = await startWorker(stint, {
    pools: { default: 1 },
    handlers: [handle(hang, untilAborted)],
  });
  await stint.enqueue(hang, {});
  await seen("claimed");

  await server.stop("immediate");
  // Five seconds by design, and room for a loaded machine; a stop that waits for the server never ends.
  const report = await worker.stop({ drain: 200, abort: 200 });
  expect(report.ms).toBeLessThan(30_000);
  await server.start();

  expect(await stint.list({ state: "running" })).toMatchObject({ jobs: [{ crashes: 0 }] });
});
