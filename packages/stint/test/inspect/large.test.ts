import type { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate } from "#stint/db/migrate.js";
import type { Run } from "#stint/db/db.js";
import { forSchema, type Statement } from "#stint/db/statement.js";
import { toSearch } from "#stint/inspect/filter.js";
import { countUpTo, findPage } from "#stint/inspect/bounded-search.js";
import type { JobFilter } from "#stint/inspect.js";
import { deadGroups } from "#stint/sql/dead-groups.js";
import { surroundings } from "#stint/sql/explain-job.js";
import { waitingTenants } from "#stint/sql/waiting-tenants.js";
import { adminClient, freshSchemaName, query, testDatabaseUrl } from "../support/database.ts";
import { flatten, type PlanNode } from "../sql/explain.ts";
import { fill, idOf, succeeded } from "./filled.ts";

// 260,000 jobs, in the lab 350,000, filled once. The cost of a search is counted in rows and pages: time would depend on the machine.
const schema = freshSchemaName();
let client: Client;

beforeAll(async () => {
  await migrate({ connection: testDatabaseUrl(), schema });
  client = await adminClient();
  await fill(async (text) => await client.query(forSchema(text, schema)));
}, 120_000);

afterAll(async () => {
  await client.end();
  await query(`drop schema "${schema}" cascade`);
});

type Cost = { rows: number; whole: number; sent: number };

/** What a question reads: rows by index, and rows by reading tables whole, of all tables of jobs. */
async function costOf<T>(work: (db: Run) => Promise<T>): Promise<{ found: T; cost: Cost }> {
  let sent = 0;
  const db: Run = {
    async run(statement, values) {
      sent += 1;
      return (await client.query(forSchema(statement.text, schema), [...values])).rows as never;
    },
  };
  await client.query("begin");
  const before = await counters();
  const found = await work(db);
  const after = await counters();
  await client.query("rollback");
  return {
    found,
    cost: { rows: after.rows - before.rows, whole: after.whole - before.whole, sent },
  };
}

async function counters(): Promise<{ rows: number; whole: number }> {
  const { rows } = await client.query<{ rows: string; whole: string }>(
    `select coalesce(sum(idx_tup_fetch), 0) as rows, coalesce(sum(seq_tup_read), 0) as whole
     from pg_stat_xact_user_tables
     where schemaname = $1 and (relname = 'job' or relname like 'history%')`,
    [schema],
  );
  return { rows: Number(rows[0]?.rows), whole: Number(rows[0]?.whole) };
}

const patient = { rows: 200_000, ms: 600_000 };
const page =
  (filter: JobFilter, limit = 50) =>
  (db: Run) =>
    findPage(db, toSearch("jobs", filter), limit, patient);

const groupsOf = (db: Run) => deadGroups(db, { kind: null, queue: null, most: 10_000, groups: 100 });
const tenantsOf = (db: Run) => waitingTenants(db, { most: 10_000, tenants: 20 });

// First: each scan hides the dead entries that it passed from the next one, unless another session is in a transaction.
test("the newest page walks none of the dead rows that make room in the table", async () => {
  const entries: number[] = [];
  const counted: Run = {
    async run(statement, values) {
      const before = await entriesRead();
      await client.query(forSchema(statement.text, schema), [...values]);
      entries.push((await entriesRead()) - before);
      return [foundNothing];
    },
  };
  await client.query("begin");
  await page({})(counted);
  await client.query("rollback");

  // Every job is months old: the first span of time has none.
  expect(entries[0]).toBe(0);
});

/** How many entries of the primary key this transaction has read, dead ones included. */
async function entriesRead(): Promise<number> {
  const { rows } = await client.query<{ entries: string }>(
    `select pg_stat_get_xact_tuples_returned('"${schema}".job_pkey'::regclass) as entries`,
  );
  return Number(rows[0]?.entries);
}

for (const analysed of [false, true]) {
  const when = analysed ? "with fresh statistics" : "with the statistics of an empty table";

  test(`a page without a filter reads one window, ${when}`, async () => {
    if (analysed) await client.query(`analyze "${schema}".job, "${schema}".history`);
    const { found, cost } = await costOf(page({}));

    expect(found.jobs.map((job) => job.id)).toEqual(
      Array.from({ length: 50 }, (_, n) => idOf(succeeded - n, 1)),
    );
    // The jobs are months old: it takes some empty spans of time to come to them.
    expect(cost.sent).toBeLessThan(10);
    expect(cost.whole).toBe(0);
    // A window of each of the three: what lives, what is done, what is dead; and one more of each day.
    expect(cost.rows).toBeLessThan(3 * 1_000 + 20);
  });

  test(`a search for dead jobs by a rare error reads dead jobs only, ${when}`, async () => {
    const { found, cost } = await costOf(page({ state: "dead", error: "enospc" }));

    expect(found).toMatchObject({
      jobs: [{ id: idOf(49_000, 2) }, { id: idOf(100, 2) }],
      next: null,
      partial: false,
    });
    expect(cost.whole).toBe(0);
    expect(cost.rows).toBeLessThanOrEqual(50_000 + 100);
  });

  test(`running, parked and small-queue jobs are gathered by their index, ${when}`, async () => {
    const held = await costOf(page({ state: ["running", "parked"], kind: "work" }));
    const small = await costOf(page({ state: "ready", queue: "b" }, 200));

    expect(held.found.jobs).toHaveLength(40);
    expect(held.cost).toEqual({ rows: 40, whole: 0, sent: 1 });
    expect(small.found.jobs).toHaveLength(100);
    expect(small.cost).toEqual({ rows: 100, whole: 0, sent: 1 });
  });

  test(`more jobs than can be gathered are searched in order, ${when}`, async () => {
    const { found, cost } = await costOf(page({ state: "scheduled" }));

    expect(found.jobs).toHaveLength(50);
    expect(found.jobs.every((job) => job.state === "scheduled")).toBe(true);
    expect(cost.sent).toBeLessThan(11);
    expect(cost.whole).toBe(0);
    expect(cost.rows).toBeLessThanOrEqual(10_001 + 1_000);
  });

  test(`a search without a match reads no more than its budget, ${when}`, async () => {
    const some = { rows: 20_000, ms: 600_000 };
    const found = await costOf((db) => findPage(db, toSearch("jobs", { tenant: "nobody" }), 50, some));
    const counted = await costOf((db) => countUpTo(db, toSearch("jobs", { tenant: "nobody" }), some));

    expect(found.found).toMatchObject({ jobs: [], partial: true, next: expect.any(String) as string });
    expect(counted.found).toEqual({ count: 0, capped: true, next: found.found.next });
    for (const { cost } of [found, counted]) {
      expect(cost.whole).toBe(0);
      expect(cost.rows).toBeLessThan(3 * 20_000 + 200);
    }
  });

  test(`a time range reads only its own jobs, ${when}`, async () => {
    const at = (n: number): Date => new Date(Date.UTC(2026, 0, 1) + n * 1_000);
    const { found, cost } = await costOf(page({ since: at(1_000), until: at(1_010), state: "dead" }));

    expect(found.jobs.map((job) => job.id)).toEqual(Array.from({ length: 10 }, (_, n) => idOf(1_009 - n, 2)));
    expect(found.next).toBeNull();
    expect(cost.whole).toBe(0);
    expect(cost.rows).toBeLessThanOrEqual(1_020);
  });

  test(`counting pauses after ten thousand, ${when}`, async () => {
    const { found, cost } = await costOf((db) => countUpTo(db, toSearch("count", { kind: "work" }), patient));

    expect(found).toEqual({
      count: expect.toSatisfy((count: number) => count > 10_000 && count <= 30_000) as number,
      capped: true,
      next: expect.any(String) as string,
    });
    expect(cost.whole).toBe(0);
    expect(cost.rows).toBeLessThan(3 * 25_000);
  });

  test(`dead groups and waiting tenants read at most 10,000 jobs by index, ${when}`, async () => {
    const groups = await costOf(groupsOf);
    const tenants = await costOf(tenantsOf);

    expect(groups.found).toMatchObject({
      groups: [{ error: "attempts exhausted", count: 10_000 }],
      matched: 10_000,
      lookedAt: 10_000,
    });
    expect(groups.cost).toEqual({ rows: 10_000, whole: 0, sent: 1 });
    // Half of the look for each of the two queues, of which one has a hundred jobs.
    expect(tenants.found).toMatchObject({ lookedAt: 5_100, all: false });
    expect(tenants.cost.whole).toBe(0);
    expect(tenants.cost.rows).toBeLessThan(5_100 + 100);
  });

  test(`the neighbours of a job cost a few pages, ${when}`, async () => {
    const job = { id: idOf(50_000, 3), queue: "a", kind: "work", worker: null, tenant: null, key: null };
    const around = await costOf((db) => surroundings(db, job));

    expect(around.found.ahead).toBe(1_001);
    expect(around.cost.whole).toBe(0);
    expect(around.cost.rows).toBeLessThan(1_100);
  });
}

test("no plan sorts or reads a table of jobs beyond its window, generic or custom", async () => {
  const faults: string[] = [];
  const buffers: number[] = [];
  for (const mode of ["force_generic_plan", "force_custom_plan"]) {
    await client.query(`set plan_cache_mode = ${mode}`);
    const filters: JobFilter[] = [{}, { state: "dead" }, { state: "parked" }, { key: "k" }];
    const asked = [...filters.map((filter) => page(filter)), groupsOf, tenantsOf];
    for (const [n, work] of asked.entries()) {
      const explain: Run = {
        async run(statement, values) {
          // The first call also reads the catalogs, as many pages as other tests have left there.
          await plan(statement, values);
          const nodes = await plan(statement, values);
          buffers.push(pagesOf(nodes));
          faults.push(...faultsIn(nodes).map((fault) => `${mode} ${n}: ${fault}`));
          return [foundNothing];
        },
      };
      await work(explain);
    }
  }
  await client.query("reset plan_cache_mode");

  expect(faults).toEqual([]);
  expect(buffers.length).toBeGreaterThanOrEqual(12);
  expect(Math.max(...buffers)).toBeLessThan(2_000);
});

/** The row of a search that found nothing, whichever statement it is. */
const foundNothing = {
  id: null,
  kind: null,
  examined: 0,
  reached: null,
  matched: 0,
  looked_at: 0,
  tenants: [],
  is_all: true,
};

const pagesOf = (nodes: readonly PlanNode[]): number =>
  Math.max(...nodes.map((node) => (node["Shared Hit Blocks"] ?? 0) + (node["Shared Read Blocks"] ?? 0)));

async function plan(statement: Statement, values: readonly unknown[]): Promise<PlanNode[]> {
  type Explained = { "QUERY PLAN": { Plan: PlanNode }[] };
  const text = forSchema(statement.text, schema);
  const { rows } = await client.query<Explained>(`explain (analyze, buffers, format json) ${text}`, [
    ...values,
  ]);
  const root = rows[0]?.["QUERY PLAN"][0]?.Plan;
  return root === undefined ? [] : flatten(root);
}

/** Sorts of more than a window, and whole tables. */
function faultsIn(nodes: readonly PlanNode[]): string[] {
  return nodes
    .filter(
      (node) =>
        (node["Node Type"] === "Seq Scan" && (node["Actual Rows"] ?? 0) > 0) ||
        (node["Node Type"].includes("Sort") && (node["Actual Rows"] ?? 0) > 10_000),
    )
    .map((node) => `${node["Node Type"]} ${node["Relation Name"] ?? ""}`);
}
