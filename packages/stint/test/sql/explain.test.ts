import { expect, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { faultsOf, planned, prepare } from "./explain.ts";
import { hotFaults } from "./hot-statements.ts";
import { calls } from "./statements.ts";
import { inLab, slice } from "../support/lab.ts";

/** Enough that no plan reads them all by choice. */
const many = inLab ? 100_000 : 20_000;

async function fill(fresh: Fresh, { queues = ["a", "b", "c"], priorities = 4 } = {}): Promise<void> {
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, payload)
     select
       gen_random_uuid(), 'work', ($1::text[])[1 + n % cardinality($1)], 'ready', n % $2,
       now() - (200000 - n) * interval '1 ms', now(), '{}'
     from generate_series(1, $3::integer) n`,
    [queues, priorities, many],
  );
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select gen_random_uuid(), 'work', 'a', 'scheduled', now() + n * interval '1 s', now(), '{}'
     from generate_series(1, $1::integer) n`,
    [many / 4],
  );
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, lease_id, lease_until, epoch, attempts)
     select gen_random_uuid(), 'work', 'a', 'running', now(), now(), '{}', gen_random_uuid(), now() + n * interval '1 s', 1, 1
     from generate_series(1, 500) n`,
  );
}

/** Statistics of the columns stay as they were when the table was full, even if it is analysed again when it is empty. */
async function fillAndDrain(fresh: Fresh): Promise<void> {
  await fill(fresh);
  await fresh.sql(`vacuum analyze stint.job`);
  await fresh.sql(`delete from stint.job`);
}

/** Each follows the one before, in one installation. */
const situations: Record<string, (fresh: Fresh) => Promise<void>> = {
  "a table that was never used": async () => undefined,
  "an empty table with statistics": async (fresh) => {
    await fresh.sql(`vacuum analyze stint.job`);
  },
  "a table of a few jobs with statistics": async (fresh) => {
    await fresh.sql(
      `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
       select gen_random_uuid(), 'work', 'a', s, now(), now(), '{}'
       from generate_series(1, 5), unnest(array['ready', 'scheduled', 'parked']::stint.job_state[]) s`,
    );
    await fresh.sql(`vacuum analyze stint.job`);
  },
};

test("on an unused or small table, hot statements use their index and sort nothing", async () => {
  const fresh = await unusedSchema();
  await fresh.sql(`alter table stint.job set (autovacuum_enabled = false)`);
  const client = await adminClient(fresh.url);
  const faults: string[] = [];
  for (const [situation, arrange] of Object.entries(situations)) {
    await arrange(fresh);
    faults.push(...(await hotFaults(client, fresh.schema)).map((fault) => `${situation}: ${fault}`));
  }
  await client.end();

  expect(faults).toEqual([]);
});

const shapes = [
  { shape: "three queues", queues: ["a", "b", "c"], priorities: 4 },
  // As in most installations: statistics then indicate that queue and time lie in the table as in the index, and a planner who believes
  // that a table is empty thinks it must read all its pages.
  { shape: "one queue", queues: ["a"], priorities: 1 },
];

test.each(slice(shapes, ({ shape }) => shape === "one queue"))(
  "hot statements use their index throughout an installation with $shape",
  async ({ queues, priorities }) => {
    const fresh = await unusedSchema();
    await fresh.sql(`alter table stint.job set (autovacuum_enabled = false)`);
    const client = await adminClient(fresh.url);
    const faults: string[] = [];
    const life: Record<string, () => Promise<unknown>> = {
      "many that statistics know nothing of": async () => await fill(fresh, { queues, priorities }),
      "with statistics": async () => await fresh.sql(`vacuum analyze stint.job`),
      "just drained": async () => await fresh.sql(`delete from stint.job`),
      // Statistics of the columns stay as they were when the table was full.
      "drained and vacuumed": async () => await fresh.sql(`vacuum analyze stint.job`),
      "many where statistics say there are none": async () => await fill(fresh, { queues, priorities }),
    };
    for (const [stage, enter] of Object.entries(life)) {
      await enter();
      faults.push(...(await hotFaults(client, fresh.schema)).map((fault) => `${stage}: ${fault}`));
    }
    await client.end();

    expect(faults).toEqual([]);
  },
);

test("a claim prepared on an empty queue stays cheap when many jobs arrive", async () => {
  const fresh = await unusedSchema();
  await fresh.sql(`alter table stint.job set (autovacuum_enabled = false)`);
  await fillAndDrain(fresh);
  await fresh.sql(`vacuum analyze stint.job`);
  const client = await adminClient(fresh.url);
  await client.query("set plan_cache_mode = force_generic_plan");
  const values = await prepare(client, fresh.schema, calls["claim"]!);
  await client.query(`execute plan (${values})`);

  await fill(fresh);
  const nodes = await planned(client, values, "analyze, timing off, format json");
  await client.end();

  expect(faultsOf(nodes)).toEqual([]);
  const scan = nodes.find((node) => node["Index Name"] === "job_ready");
  // Ten from one queue and three from the other, in two scans that stop there. Old servers round rows per scan.
  expect(scan?.["Actual Loops"]).toBe(2);
  expect([6, 6.5, 7]).toContain(scan?.["Actual Rows"]);
  expect(scan?.["Rows Removed by Filter"] ?? 0).toBe(0);
});

test("the live table keeps its reserved pages through vacuum and after a truncate", async () => {
  const fresh = await unusedSchema();
  const pages = async (): Promise<number> =>
    (await fresh.sql<{ n: number }>(`select (pg_relation_size('stint.job') / 8192)::integer as n`))[0]?.n ??
    0;

  await fresh.sql(`vacuum analyze stint.job`);
  const vacuumed = await pages();
  await fresh.sql(`truncate stint.job`);
  const emptied = await pages();
  await calls["makePartitionsAhead"]!(fresh.db);
  const restored = await pages();

  expect([vacuumed >= 256, emptied, restored >= 256]).toEqual([true, 0, true]);
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
});
