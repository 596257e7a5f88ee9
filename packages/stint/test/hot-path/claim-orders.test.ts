import { afterAll, beforeAll, expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import { newId } from "#stint/runtime/new-id.js";
import { claimAged } from "#stint/sql/claim-aged.js";
import { claimFair } from "#stint/sql/claim-fair.js";
import { claimUrgent } from "#stint/sql/claim-urgent.js";
import { adminClient } from "../support/database.ts";
import { sharedSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { touched, type Touched } from "./touched.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({ autovacuum: "off", full_page_writes: "off", jit: "off" });
});
afterAll(async () => {
  await server.remove();
});

const shared = sharedSchema(() => server.url);

const input = { worker: "w", leaseId: newId(), kinds: ["work"], kindLeaseMs: {}, leaseMs: 30_000 };
const [few, many] = [1_000, inLab ? 1_000_000 : 10_000];
const limit = 10;

/** What a claim of ten jobs touches, with a small backlog and with a large one. */
async function atBothSizes(
  fill: (fresh: Fresh, backlog: number) => Promise<void>,
  call: (db: Run) => Promise<unknown>,
): Promise<{ small: Touched; large: Touched }> {
  const fresh = shared();
  const at = async (backlog: number): Promise<Touched> => {
    await fresh.sql(`truncate stint.job`);
    const client = await adminClient(fresh.url);
    await fill(fresh, backlog);
    await fresh.sql(`vacuum analyze stint.job`);
    const cost = await touched(client, fresh.schema, call);
    await client.end();
    return cost;
  };
  return { small: await at(few), large: await at(many) };
}

/** An index of more jobs may have one or two levels more, which each look and each written entry descends. */
function expectSamePages({ small, large }: { small: Touched; large: Touched }): void {
  expect(large).toMatchObject({ rows: small.rows, removed: small.removed });
  expect(large.pages - small.pages).toBeLessThanOrEqual(limit * 10);
}

const job = (tenant: string, priority: string): string => `
  insert into stint.job (id, kind, queue, state, priority, run_at, created_at, payload, tenant, fair_tenant)
  select gen_random_uuid(), 'work', 'a', 'ready', ${priority}, now() - interval '1 day' + n * interval '1 ms', now(), '{}', ${tenant}, ${tenant}
  from generate_series(1, $1::integer) n`;

const turn = { tenant: "", left: 0 };
const fair = (db: Run): Promise<unknown> =>
  claimFair(db, { ...input, queue: "a", limit, turn, weights: { large: 2 } });

test("a fair claim reads as many pages, however many jobs a tenant has", async () => {
  const costs = await atBothSizes(async (fresh, backlog) => {
    await fresh.sql(job("'large'", "n % 3"), [backlog]);
    await fresh.sql(job("'small-' || n % 4", "0"), [40]);
  }, fair);

  expectSamePages(costs);
  // Five tenants, each found by one look. The row that ends the walk is removed.
  expect(costs.large.removed).toBeLessThanOrEqual(1);
  expect(costs.large.pages).toBeLessThanOrEqual(5 * 2 * 5 + limit * 20);
});

test("a fair claim visits no more tenants than it takes jobs", async () => {
  const costs = await atBothSizes(async (fresh, tenants) => {
    await fresh.sql(job("'tenant-' || n", "0"), [tenants]);
  }, fair);

  expectSamePages(costs);
  // Two looks for each tenant that it visits: for its name, and for its job.
  expect(costs.large.rows).toBeLessThanOrEqual(3 * limit);
  expect(costs.large.pages).toBeLessThanOrEqual(limit * 2 * 5 + limit * 20);
});

test("an aged claim reads the heads of the priorities only", async () => {
  const costs = await atBothSizes(
    async (fresh, backlog) => await fresh.sql(job("null", "n % 4"), [backlog]).then(() => undefined),
    (db) => claimAged(db, { ...input, queue: "a", limit, agingMs: 1_000 }),
  );

  expectSamePages(costs);
  // Ten and 16 spare ones of each of four priorities, and the first of each.
  expect(costs.large).toMatchObject({ rows: 4 * (limit + 16) + 4, removed: 0 });
  expect(costs.large.pages).toBeLessThanOrEqual(4 * 2 * 5 + 4 * (limit + 16) + limit * 20);
});

test("an urgent claim stops where urgent jobs end", async () => {
  const takes = [{ queue: "a", limit, mostPriority: 1 }];
  const costs = await atBothSizes(
    async (fresh, backlog) => {
      await fresh.sql(job("null", "5"), [backlog]);
      await fresh.sql(job("null", "n % 2"), [limit - 2]);
    },
    (db) => claimUrgent(db, { ...input, takes }),
  );

  expectSamePages(costs);
  expect(costs.large).toMatchObject({ rows: limit - 2, removed: 0 });
  expect(costs.large.pages).toBeLessThanOrEqual(10 + limit * 20);
});
