/**
 * What a claim costs, in milliseconds with its commit: of a plain queue, of a fair queue with few and many tenants, and of a queue whose head is a
 * backlog of kinds that the worker does not serve. The figures behind docs/decisions/0041-fairness.md.
 *
 *   npm run lab:fairness
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { createStint, defineJob, handle, silentLogger, typed } from "stint";
import { migrate, startEmbedded } from "stint/dev";

type Row = Record<string, string>;
type Run = { run(statement: { name: string; text: string }, values: readonly unknown[]): Promise<Row[]> };
type Claimed = { runAt: string; priority: number; fence: { job: string } };
type Turn = { tenant: string; left: number };
type Build = {
  claim: (db: Run, input: unknown, floors?: readonly unknown[]) => Promise<Claimed[]>;
  claimFair: (db: Run, input: unknown) => Promise<{ jobs: unknown[]; last: Turn | null }>;
  nextTurn: (last: Turn, wasFull: boolean) => Turn;
};

const load = async (file: string): Promise<Partial<Build>> =>
  (await import(new URL(`../../packages/stint/dist/${file}`, import.meta.url).href)) as Partial<Build>;
const files = await Promise.all(["sql/claim.js", "sql/claim-fair.js", "model/fairness.js"].map(load));
const { claim, claimFair, nextTurn } = Object.assign({}, ...files) as Build;

const server = await startEmbedded({
  settings: { shared_buffers: "512MB", max_wal_size: "4GB", jit: "off" },
});
const sql = new Client({ connectionString: server.url });
const db: Run = {
  run: async ({ name, text }, values) =>
    (await sql.query<Row>({ name, text, values: [...values], types: { getTypeParser: () => String } })).rows,
};
const input = { worker: "w", kinds: ["work"], kindLeaseMs: {}, leaseMs: 30_000 };

try {
  await sql.connect();
  await migrate({ connection: server.url });
  await sql.query(`select stint.set_queue('fair', '{"fair": "tenant"}', 'lab')`);
  for (const limit of process.argv.includes("--head") ? [] : [1, 10, 100, 1_000]) {
    const plain = await timed("plain", { large: 100_000, tenants: 99, each: 10 }, limit);
    const fair = [];
    for (const tenants of [99, 1_000, 10_000])
      fair.push(await timed("fair", { large: 100_000, tenants, each: tenants > 1_000 ? 5 : 10 }, limit));
    console.log(
      `${limit} jobs a claim: plain ${plain}, fair with 100 tenants ${fair.join(", 1,000 and 10,000 ")}`,
    );
  }
  for (const foreign of [0, 30_000, 300_000])
    console.log(`behind ${foreign} jobs of another kind: ${await behind(foreign)}; ${await pickUp(foreign)}`);
} finally {
  await sql.end().catch(() => undefined);
  await server.stop("fast");
}

async function fill(
  queue: string,
  kind: string,
  tenants: readonly (readonly [string, number])[],
): Promise<void> {
  for (const [tenant, count] of tenants)
    await sql.query(
      `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, tenant, fair_tenant)
       select gen_random_uuid(), $2, $1, 'ready', now() - interval '1 hour' + n * interval '1 microsecond', now(), '{}', $3, stint.fair_tenant($1, $3)
       from generate_series(1, $4::integer) n`,
      [queue, kind, tenant, count],
    );
}

type Load = { large: number; tenants: number; each: number };

/** The median of claims one after the other, in milliseconds. */
async function timed(
  queue: "plain" | "fair",
  { large, tenants, each }: Load,
  limit: number,
): Promise<string> {
  await sql.query("truncate stint.job");
  await sql.query("select stint.make_room()");
  await fill(queue, "work", [["large", large]]);
  await sql.query(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, tenant, fair_tenant)
     select gen_random_uuid(), 'work', $1, 'ready', now(), now(), '{}', 'small-' || t, case when $1 = 'fair' then 'small-' || t end
     from generate_series(1, $2::integer) t, generate_series(1, $3::integer)`,
    [queue, tenants, each],
  );
  await sql.query("vacuum analyze stint.job");
  let turn: Turn = { tenant: "", left: 0 };
  return await median(limit >= 100 ? 20 : 100, async () => {
    const next = { ...input, leaseId: randomUUID() };
    if (queue === "plain") {
      await claim(db, { ...next, takes: [{ queue, limit }] });
    } else {
      const { jobs, last } = await claimFair(db, { ...next, queue, limit, turn, weights: {} });
      if (last !== null) turn = nextTurn(last, jobs.length >= limit);
    }
  });
}

/** A claim of ten jobs that begins at the head of the queue, as a sweep does, and one that begins after the last job taken. */
async function behind(foreign: number): Promise<string> {
  await backlog(foreign);
  await fill("plain", "work", [["large", 1_000]]);
  await sql.query("vacuum analyze stint.job");
  const take = async (floors?: readonly unknown[]): Promise<Claimed[]> =>
    await claim(db, { ...input, leaseId: randomUUID(), takes: [{ queue: "plain", limit: 10 }] }, floors);
  const sweep = await median(20, async () => void (await take()));
  let last: Claimed | undefined;
  const onward = await median(20, async () => {
    const floor = last && { queue: "plain", priority: 0, runAt: last.runAt, id: last.fence.job };
    last = (await take(floor && [floor])).at(-1);
  });
  return `a sweep ${sweep}, a claim from the floor ${onward}`;
}

/** From the enqueue to the start of a job, one at a time, with a worker that serves one kind of the queue. */
async function pickUp(foreign: number): Promise<string> {
  await backlog(foreign);
  await sql.query("vacuum analyze stint.job");
  const stint = createStint({ database: server.url, logger: silentLogger });
  const work = defineJob("work", { queue: "plain", payload: typed<{ n: number }>() });
  let started: (() => void) | undefined;
  const worker = stint.worker({ pools: { plain: 10 }, handlers: [handle(work, () => started?.())] });
  await worker.start();
  const waited = await median(
    60,
    async () => {
      const start = new Promise<void>((resolve) => (started = resolve));
      await stint.enqueue(work, { n: 0 });
      await start;
    },
    200,
  );
  await worker.stop();
  await stint.close();
  return `an enqueued job starts after ${waited}`;
}

async function backlog(foreign: number): Promise<void> {
  await sql.query("truncate stint.job");
  await sql.query("select stint.make_room()");
  await fill("plain", "foreign", [["large", foreign]]);
  await sql.query("update stint.job set run_at = run_at - interval '1 day'");
}

async function median(times: number, run: () => Promise<void>, restMs = 0): Promise<string> {
  const ms: number[] = [];
  for (let n = 0; n < times; n++) {
    const began = performance.now();
    await run();
    ms.push(performance.now() - began);
    if (restMs > 0) await sleep(restMs);
  }
  ms.sort((a, b) => a - b);
  const at = (share: number): string => (ms[Math.floor(times * share)] ?? 0).toFixed(1);
  return restMs > 0 ? `${at(0.5)} ms (p95 ${at(0.95)})` : `${at(0.5)} ms`;
}
