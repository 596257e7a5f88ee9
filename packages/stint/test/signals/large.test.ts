import { afterAll, beforeAll, expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import { crew } from "#stint/sql/crew.js";
import { depths, standing } from "#stint/sql/depth.js";
import { lately, recent, seriesSteps, topTenants, usual } from "#stint/sql/series.js";
import { runningJobs } from "#stint/sql/slow.js";
import { fold, recount } from "#stint/sql/tallies.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { fillWithAMillion } from "../hot-path/large-table.ts";
import { planned, prepare } from "../sql/explain.ts";
import { addOne } from "../sql/jobs.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({
    autovacuum: "off",
    full_page_writes: "off",
    wal_level: "minimal",
    max_wal_senders: "0",
    max_wal_size: "8GB",
    shared_buffers: "512MB",
    maintenance_work_mem: "256MB",
    jit: "off",
  });
});
afterAll(async () => {
  await server.remove();
});

const asked: Record<string, (db: Run) => Promise<unknown>> = {
  depths: (db) => depths(db),
  standing: (db) => standing(db),
  lately: (db) => lately(db),
  crew: (db) => crew(db, 10_000),
  running: (db) => runningJobs(db),
  usual: (db) => usual(db),
  minute: (db) => recent(db, 10, 60_000),
  day: (db) => recent(db, 3_600, 86_400_000),
  chart: (db) => seriesSteps(db, { stepSeconds: 60, backMs: 21_600_000, queue: null, kind: null }),
  dayChart: (db) => seriesSteps(db, { stepSeconds: 600, backMs: 86_400_000, queue: null, kind: null }),
  tenants: (db) => topTenants(db),
  fold: (db) => fold(db, 0),
};

/** Dead jobs in many queues, and a week of points of many kinds. */
async function fillTheRest(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run, payload)
     select gen_random_uuid(), 'work', 'q' || n % 40, 'dead', 0, now(), now(), now() - n * interval '1 s', 1, 0, 0, 1, 1, '{}'
     from generate_series(1, 200000) n`,
  );
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind, claimed, succeeded, run, wait, ready)
     select step, stint.step_of(now(), step) - n * step * interval '1 s', 'q' || k, 'kind-' || k, 5, 5, array_fill(1, array[21]), array_fill(1, array[21]), 3
     from (values (10, 2160), (60, 2000), (600, 600), (3600, 500)) s (step, points), generate_series(0, points - 1) n, generate_series(1, 40) k`,
  );
  await recount(fresh.db);
  await addOne(fresh.db, { queue: "a" });
}

test("whatever is asked of a million live jobs, 200,000 dead ones and 40 busy kinds touches few pages", async () => {
  const fresh = await freshSchema(server.url);
  const client = await adminClient(fresh.url);
  await fillWithAMillion(fresh);
  await fillTheRest(fresh);
  for (const table of ["job", "history", "series", "tally"]) await fresh.sql(`vacuum analyze stint.${table}`);

  const pages: Record<string, number> = {};
  for (const [name, call] of Object.entries(asked)) {
    const nodes = await planned(
      client,
      await prepare(client, fresh.schema, call),
      "analyze, buffers, timing off, format json",
    );
    pages[name] = (nodes[0]?.["Shared Hit Blocks"] ?? 0) + (nodes[0]?.["Shared Read Blocks"] ?? 0);
  }
  await client.end();

  // The live jobs alone are 20,000 pages, and the points as many.
  // A chart of all kinds at once reads every point of its time.
  const most = (name: string): number => ({ chart: 16_000, dayChart: 8_000 })[name] ?? 3_000;
  const many = Object.entries(pages).filter(([name, count]) => count > most(name));
  expect(many).toEqual([]);
}, 180_000);
