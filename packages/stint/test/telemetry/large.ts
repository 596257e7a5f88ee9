import type { Client } from "pg";
import type { Run } from "#stint/db/db.js";
import { workerActivity } from "#stint/sql/worker-activity.js";
import { depths, standing } from "#stint/sql/depth.js";
import { lately, recent, recentRuns, samples, seriesSteps, topTenants } from "#stint/sql/series.js";
import { runningJobs } from "#stint/sql/slow.js";
import { fold, recount } from "#stint/sql/tallies.js";
import type { Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { planned, prepare } from "../sql/explain.ts";
import { addOne } from "../sql/jobs.ts";

const asked: Record<string, (db: Run) => Promise<unknown>> = {
  depths: (db) => depths(db),
  standing: (db) => standing(db),
  lately: (db) => lately(db),
  workerActivity: (db) => workerActivity(db, 10_000),
  running: (db) => runningJobs(db),
  recentRuns: (db) => recentRuns(db),
  minute: (db) => recent(db, 10, 60_000),
  day: (db) => recent(db, 3_600, 86_400_000),
  chart: (db) => seriesSteps(db, { stepSeconds: 60, backMs: 21_600_000, queue: null, kind: null }),
  dayChart: (db) => seriesSteps(db, { stepSeconds: 600, backMs: 86_400_000, queue: null, kind: null }),
  sampled: (db) => samples(db, { stepSeconds: 60, backMs: 21_600_000, queue: null, kind: null }),
  tenants: (db) => topTenants(db),
  fold: (db) => fold(db, 0),
};

/** `npm test` has a fifth of the rows, and allows a fifth of the pages. */
const part = inLab ? 1 : 1 / 5;
const dead = 200_000 * part;
const kinds = 40 * part;

/** Dead jobs in many queues, and a week of points of many kinds. */
async function fillTheRest(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run, payload)
     select gen_random_uuid(), 'work', 'q' || n % 40, 'dead', 0, now(), now(), now() - n * interval '1 s', 1, 0, 0, 1, 1, '{}'
     from generate_series(1, $1::integer) n`,
    [dead],
  );
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind, claimed, succeeded, run, wait, ready)
     select step, stint.step_of(now(), step) - n * step * interval '1 s', 'q' || k, 'kind-' || k, 5, 5, array_fill(1, array[21]), array_fill(1, array[21]), 3
     from (values (10, 2160), (60, 2000), (600, 600), (3600, 500)) s (step, points), generate_series(0, points - 1) n, generate_series(1, $1::integer) k`,
    [kinds],
  );
  await recount(fresh.db);
  await addOne(fresh.db, { queue: "a" });
}

/** The statements that touch more pages of a large installation than they may, with how many. */
export async function tooManyPages(fresh: Fresh, client: Client): Promise<[string, number][]> {
  await client.query("reset plan_cache_mode");
  await fillTheRest(fresh);
  // Every row is in the sample: with a part of them, the planner chose another plan in one of six runs.
  await client.query("set default_statistics_target = 1000");
  for (const table of ["job", "history", "series", "tally"])
    await client.query(`vacuum analyze "${fresh.schema}".${table}`);

  const pages: Record<string, number> = {};
  for (const [name, call] of Object.entries(asked)) {
    const nodes = await planned(
      client,
      await prepare(client, fresh.schema, call),
      "analyze, buffers, timing off, format json",
    );
    pages[name] = (nodes[0]?.["Shared Hit Blocks"] ?? 0) + (nodes[0]?.["Shared Read Blocks"] ?? 0);
  }
  // In the lab, the live jobs alone are 20,000 pages, and the points as many.
  // A chart of all kinds at once reads every point of its time.
  const most: Record<string, number> = { chart: 16_000, sampled: 20_000, dayChart: 8_000 };
  // What a fold touches does not depend on the size.
  const allowed = (name: string): number => (name === "fold" ? 3_000 : (most[name] ?? 3_000) * part);
  return Object.entries(pages).filter(([name, count]) => count > allowed(name));
}
