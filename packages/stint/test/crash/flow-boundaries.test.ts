import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineJob, entry, typed, type Stint } from "#stint/index.js";
import { sessions } from "../sql/sessions.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import {
  builtProgram,
  expireLeases,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

type Payload = { instance: string; at?: string };
const kind = (name: string) => defineJob(name, { payload: typed<Payload>() });

/** What follows what: how it is enqueued, where its jobs can be interrupted, and which jobs there must be in the end. */
type Shape = {
  readonly enqueue: (stint: Stint, payload: Payload) => Promise<unknown>;
  readonly points: readonly string[];
  readonly jobs: Readonly<Record<string, number>>;
};

const shapes: Record<string, Shape> = {
  continue: {
    enqueue: (stint, payload) => stint.enqueue(kind("first"), payload),
    points: ["first entered", "first planned", "first ended", "second entered", "second ended"],
    jobs: { "first succeeded": 1, "second succeeded": 1 },
  },
  "fan-in": {
    enqueue: async (stint, payload) => {
      const parts = await stint.enqueueMany([1, 2, 3].map(() => entry(kind("part"), payload)));
      await stint.enqueue(kind("join"), payload, { after: parts });
    },
    points: ["part entered", "part ended", "join entered", "join ended"],
    jobs: { "part succeeded": 3, "join succeeded": 1 },
  },
  batch: {
    enqueue: (stint, payload) =>
      stint.batch(
        [1, 2, 3].map(() => entry(kind("hook"), payload)),
        { onComplete: entry(kind("callback"), payload) },
      ),
    points: ["hook entered", "hook ended", "callback entered", "callback ended"],
    jobs: { "hook succeeded": 3, "callback succeeded": 1 },
  },
  children: {
    enqueue: (stint, payload) => stint.enqueue(kind("parent"), payload),
    points: [
      "parent entered",
      "parent planned",
      "parent ended",
      "child entered",
      "child ended",
      "parent again entered",
      "parent again ended",
    ],
    jobs: { "parent succeeded": 1, "child succeeded": 2 },
  },
  compensation: {
    enqueue: (stint, payload) =>
      stint.flow("order", {
        reserve: entry(kind("reserve"), payload, { compensate: entry(kind("restock"), payload) }),
        charge: entry(kind("charge"), payload, {
          after: ["reserve"],
          compensate: entry(kind("refund"), payload),
        }),
        ship: entry(kind("ship"), payload, { after: ["charge"] }),
      }),
    points: ["charge ended", "ship entered", "ship ended", "refund entered", "refund ended", "restock ended"],
    jobs: {
      "reserve succeeded": 1,
      "charge succeeded": 1,
      "ship dead": 1,
      "refund succeeded": 1,
      "restock succeeded": 1,
    },
  },
};

const all = Object.entries(shapes).flatMap(([name, shape]) =>
  // "nowhere": it runs to its end before the process is killed.
  [...shape.points, "nowhere"].map((at) => ({ shape, instance: `${name}, ${at}`, at })),
);

const program = fileURLToPath(new URL("../fixtures/flows-process.mjs", import.meta.url));
/** Leases end only when a test says so. */
async function start(fresh: Fresh, pauses: boolean): Promise<WorkerProcess> {
  const worker = { lease: "1h", maxCrashes: 50, pools: { default: 100 } } as const;
  return await startWorkerProcess(fresh, {
    program: builtProgram(program),
    worker,
    client: { pauses } as object,
  });
}

/** Enqueues every shape once for each of its points, and waits until a process has come to all of these. Returns the paused jobs. */
async function interrupted(fresh: Fresh): Promise<{ worker: WorkerProcess; jobs: string[] }> {
  const worker = await start(fresh, true);
  for (const { shape, instance, at } of all) await shape.enqueue(fresh.client(), { instance, at });
  const reached = (): Set<string | undefined> =>
    new Set(worker.reports.filter(({ event }) => event === "reached").map(({ step }) => step));
  const points = all.map(({ at }) => at).filter((at) => at !== "nowhere");
  await until(() => points.every((at) => reached().has(at)), { message: "every point is reached" });
  await until(
    async () =>
      (await jobsOf(fresh, (at) => at === "nowhere")).every(([, found, wanted]) => equal(found, wanted)),
    { message: "what is not interrupted ends" },
  );
  const jobs = worker.reports.flatMap(({ event, id }) =>
    event === "reached" && id !== undefined ? [id] : [],
  );
  return { worker, jobs };
}

/** The jobs of each instance by kind and state: as they are, and as they must be in the end. */
async function jobsOf(
  fresh: Fresh,
  only: (at: string) => boolean = () => true,
): Promise<[instance: string, found: Record<string, number>, wanted: Readonly<Record<string, number>>][]> {
  const rows = await fresh.sql<{ instance: string; job: string; n: number }>(
    `select payload ->> 'instance' as instance, kind || ' ' || state as job, count(*)::integer as n
     from stint.jobs group by 1, 2`,
  );
  return all
    .filter(({ at }) => only(at))
    .map(({ instance, shape }) => {
      const own = rows.filter((row) => row.instance === instance).map(({ job, n }) => [job, n] as const);
      return [instance, Object.fromEntries(own), shape.jobs];
    });
}

function equal(one: object, other: object): boolean {
  const sorted = (value: object): string =>
    JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return sorted(one) === sorted(other);
}

/** Jobs and edges that contradict each other: an end that was not passed on, one passed on twice, a live part without a job. */
async function contradictions(fresh: Fresh): Promise<unknown[]> {
  return await fresh.sql(
    `select 'count' as what, m.job_id from stint.flow_job m
     where m.state is null and m.pending <> m.is_open::integer + (
       select count(*) from stint.flow_edge e
       where e.job_id = m.job_id and (e.state is null or (m.on_failure <> 'run' and e.state <> 'succeeded')))
     union all
     select 'edge', e.job_id from stint.flow_edge e
     where (e.state is null) <> exists (
       select from stint.flow_job c join stint.job j on j.id = c.job_id where coalesce(c.chain_id, c.job_id) = e.on_id)
     union all
     select 'part', m.job_id from stint.flow_job m
     where (m.state is null) <> exists (select from stint.job j where j.id = m.job_id)
     union all
     select 'blocked', j.id from stint.job j join stint.flow_job m on m.job_id = j.id
     where (j.park_reason is not distinct from 'blocked') <> (m.pending > 0)
     union all
     select 'unchecked', m.job_id from stint.flow_job m where m.unchecked`,
  );
}

async function expectConserved(fresh: Fresh): Promise<void> {
  await until(async () => (await fresh.sql(`select from stint.job`)).length === 0, {
    message: "all jobs end",
  });
  for (const [instance, found, wanted] of await jobsOf(fresh))
    expect({ instance, ...found }).toEqual({ instance, ...wanted });
  expect(await contradictions(fresh)).toEqual([]);
}

test("kill -9 at any boundary of a flow loses no successor and doubles none", async () => {
  const fresh = await freshSchema();
  const { worker } = await interrupted(fresh);
  worker.kill("SIGKILL");
  await worker.ended;
  expect(await contradictions(fresh)).toEqual([]);

  await expireLeases(fresh);
  await start(fresh, false);
  await expectConserved(fresh);
});

test("a process stopped at any boundary of a flow continues nothing after a rescue", async () => {
  const fresh = await freshSchema();
  const { worker, jobs } = await interrupted(fresh);
  worker.kill("SIGSTOP");
  await expireLeases(fresh);
  await start(fresh, false);
  await expectConserved(fresh);

  // Other jobs may have committed their settle just before the stop, and report it only now.
  const settled = (): string[] =>
    worker.reports.flatMap(({ event, id }) =>
      event === "settled" && id !== undefined && jobs.includes(id) ? [id] : [],
    );
  const before = settled();
  for (const id of jobs) worker.go(id);
  worker.kill("SIGCONT");
  for (const id of jobs) await worker.reported("leaseLost", id);
  await expectConserved(fresh);
  expect(settled()).toEqual(before);
});

/** The row that the settle of each shape needs after it has deleted its job, and before it commits. */
const inFlight: Record<string, [shape: string, at: string, lock: string]> = {
  "the unblocking of a fan-in": [
    "fan-in",
    "part ended",
    `select from stint.job where kind = 'join' for update`,
  ],
  "the callback of a batch": [
    "batch",
    "hook ended",
    `select from stint.job where kind = 'callback' for update`,
  ],
  "a parent of children": [
    "children",
    "child ended",
    `select from stint.job where kind = 'parent' for update`,
  ],
  "a compensation": ["compensation", "ship ended", `select from stint.flow for update`],
};

test.each(slice(Object.entries(inFlight), ([name]) => name === "the unblocking of a fan-in"))(
  "kill -9 while a settle is in flight conserves %s",
  async (_, [name, at, lock]) => {
    const fresh = await freshSchema();
    const shape = shapes[name]!;
    const [session] = await sessions(fresh, 1);
    const victim = await start(fresh, true);
    await shape.enqueue(fresh.client(), { instance: `${name}, ${at}`, at });
    const { id } = await victim.reported("reached");
    await session!.begin();
    await session!.client.query(lock.replace("stint.", `"${fresh.schema}".`));
    victim.go(id!);
    const waiting = `select from pg_stat_activity where query like '%' || $1 || '%' and wait_event_type = 'Lock'`;
    await until(async () => (await fresh.sql(waiting, [fresh.schema])).length > 0, {
      message: "the settle waits",
    });

    victim.kill("SIGKILL");
    await victim.ended;
    await session!.rollback();
    await until(async () => (await fresh.sql(waiting, [fresh.schema])).length === 0, {
      message: "it waits no more",
    });
    await expireLeases(fresh);
    await start(fresh, false);
    await until(async () => (await fresh.sql(`select from stint.job`)).length === 0, {
      message: "all jobs end",
    });
    const [found] = await jobsOf(fresh, (point) => point === at);
    expect(found![1]).toEqual(shape.jobs);
    expect(await contradictions(fresh)).toEqual([]);
  },
);
