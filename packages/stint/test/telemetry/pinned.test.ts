import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import type { PlanNode } from "../sql/explain.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({ autovacuum: "off", jit: "off" });
});
afterAll(async () => {
  await server.remove();
});

/** All pages that this has in hand, and the statements within it. */
async function pages(fresh: Fresh, text: string): Promise<number> {
  const [row] = await fresh.sql<{ "QUERY PLAN": { Plan: PlanNode }[] }>(
    `explain (analyze, buffers, timing off, format json) ${text}`,
  );
  const root = row!["QUERY PLAN"][0]!.Plan;
  return (root["Shared Hit Blocks"] ?? 0) + (root["Shared Read Blocks"] ?? 0);
}

const median = (all: readonly number[]): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0;

/** A transaction of another session that keeps its snapshot until the test ends. */
async function pin(fresh: Fresh): Promise<void> {
  const client = await adminClient(fresh.url);
  onTestFinished(async () => await client.end());
  await client.query("begin isolation level repeatable read");
  await client.query(`select count(*) from "${fresh.schema}".job`);
}

test("behind a transaction open for hours, folds and depth reads touch as many pages", async () => {
  const fresh = await freshSchema(server.url);
  // All of this would go to the same ten seconds, as no four hundred folds ever do.
  await fresh.sql(
    `create or replace function stint.record_series(p_rows jsonb) returns void language sql as 'select'`,
  );
  await pin(fresh);
  const said = `insert into stint.tally_delta (queue, kind, priority, live) select 'q' || n % 5, 'kind-' || n, 0, 1 from generate_series(1, 50) n`;
  const folding: number[] = [];
  const looking: number[] = [];
  // An hour has 360. If pages grew with every fold, 120 would show it, too.
  const count = inLab ? 400 : 120;
  for (let folds = 0; folds < count; folds++) {
    await fresh.sql(said);
    folding.push(await pages(fresh, `select stint.fold_tallies(0, false)`));
    if (folds % 4 === 0) looking.push(await pages(fresh, `select * from stint.depth`));
  }

  const [sum] = await fresh.sql<{ live: string }>(`select sum(live)::text as live from stint.depth`);
  expect(sum!.live).toBe(String(count * 50));
  const early = [median(folding.slice(20, 60)), median(looking.slice(5, 15))];
  const late = [median(folding.slice(-40)), median(looking.slice(-10))];
  expect(late[0]).toBeLessThanOrEqual(early[0]! * 1.2);
  expect(late[1]).toBeLessThanOrEqual(early[1]! * 1.2 + 10);
}, 120_000);
