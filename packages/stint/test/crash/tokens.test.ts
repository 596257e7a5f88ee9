import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineDependency, defineJob, entry, typed } from "#stint/index.js";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { overshoot, recordTokens, tokenHistory } from "../support/token-history.ts";
import { until } from "../support/until.ts";
import { builtProgram, startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";

const rate = { limit: 100, perMs: 1_000, burst: 10 };
const api = defineDependency("api", {
  concurrency: 5,
  rate: { limit: 100, per: "1s", burst: 10 },
  quota: { limit: 1_000_000, per: "month" },
});
const cheap = defineJob("cheap", { payload: typed<{ ms: number }>(), uses: [api] });
const costly = defineJob("costly", {
  payload: typed<{ ms: number }>(),
  uses: [{ dependency: api, cost: () => 3 }],
});

const program = fileURLToPath(new URL("../fixtures/tokens-process.mjs", import.meta.url));
const jobs = Number(process.env["STINT_TEST_METERED_JOBS"] ?? (inLab ? 50_000 : 120));
const kills = inLab ? 60 : 2;

const start = async (fresh: Fresh): Promise<WorkerProcess> =>
  await startWorkerProcess(fresh, {
    program: builtProgram(program),
    worker: { pools: { default: 6 }, lease: "1h", rescueEvery: 300, maxCrashes: 100 },
  });

/** End the leases of killed processes only: a paused one keeps its jobs, however slow the machine is. */
const expireDead = (fresh: Fresh): Promise<unknown> =>
  fresh.sql(
    `update stint.job j set lease_until = clock_timestamp()
     from stint.worker w join stint.death d on d.pid = w.pid
     where j.state = 'running' and j.worker = w.id and j.lease_until > clock_timestamp()`,
  );

test(
  "kill -9 and pauses overdraw no bucket, and no waiting job is forgotten",
  { timeout: inLab ? 3_600_000 : 240_000 },
  async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    await recordTokens(fresh);
    await fresh.sql(
      `create table stint.visit (job uuid, epoch bigint, kind text, pid integer, entered timestamptz, left_at timestamptz)`,
    );
    await fresh.sql(`create table stint.death (pid integer, at timestamptz)`);
    for (let first = 0; first < jobs; first += 500)
      await stint.enqueueMany(
        Array.from({ length: Math.min(500, jobs - first) }, (_, n) =>
          entry(n % 4 === 0 ? costly : cheap, { ms: n % 7 }),
        ),
      );
    const workers = [await start(fresh), await start(fresh)];
    const ended = async (): Promise<number> => {
      await expireDead(fresh);
      const [row] = await fresh.sql<{ count: number }>(
        `select count(*)::integer as count from stint.history`,
      );
      return row!.count;
    };
    for (let kill = 1; kill <= kills; kill++) {
      await until(async () => (await ended()) >= (jobs * kill) / (kills + 2), {
        message: `some jobs have ended before kill ${kill}`,
        deadlineMs: inLab ? 600_000 : 60_000,
      });
      const paused = workers[(kill + 1) % workers.length]!;
      paused.kill("SIGSTOP");
      const doomed = workers[kill % workers.length]!;
      doomed.kill("SIGKILL");
      await doomed.ended;
      await fresh.sql(`insert into stint.death values ($1, clock_timestamp())`, [doomed.pid]);
      workers[kill % workers.length] = await start(fresh);
      paused.kill("SIGCONT");
    }
    await until(async () => (await ended()) === jobs, {
      message: "every job has ended",
      deadlineMs: inLab ? 1_800_000 : 120_000,
    });

    const history = await tokenHistory(fresh);
    expect(overshoot(history, rate)).toBeLessThanOrEqual(0);
    const [visits] = await fresh.sql<{ tokens: number; most: number }>(
      `select
         (select sum(case kind when 'costly' then 3 else 1 end) from stint.visit)::integer as tokens,
         (select max(at_once) from (
           select sum(change) over (order by at, change rows unbounded preceding) as at_once
           from (
             select entered as at, 1 as change from stint.visit
             union all
             select coalesce(left_at, (select min(d.at) from stint.death d where d.pid = v.pid)), -1 from stint.visit v
           ) changes
         ) counted)::integer as most`,
    );
    // Each start has its own tokens. Those of killed processes may be lost.
    expect(history.reduce((sum, { used }) => sum + used, 0)).toBeGreaterThanOrEqual(visits!.tokens);
    expect(visits!.most).toBeLessThanOrEqual(5);
    expect(await fresh.sql(`select * from stint.dependency_wait`)).toEqual([]);
    const states = await fresh.sql(
      `select state::text, count(*)::integer as count from stint.history group by state`,
    );
    expect(states).toEqual([{ state: "succeeded", count: jobs }]);
  },
);
