import { expect, onTestFinished, test, vi } from "vitest";
import { defineDependency, defineJob, handle, typed } from "#stint/index.js";
import { Tokens } from "#stint/worker/tokens.js";
import { freshSchema } from "../support/fresh.ts";
import { overshoot, recordTokens, tokenHistory } from "../support/token-history.ts";
import { states, stopAll, twoWorkers } from "../support/two-workers.ts";
import { until } from "../support/until.ts";

const quota = { limit: 1_000_000, per: "month" } as const;

test("three kinds share a bucket, which no stretch of time overdraws", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await recordTokens(fresh);
  const api = defineDependency("api", { rate: { limit: 40, per: "1s", burst: 3 }, quota });
  const jobs = ["fetch", "store", "send"].map((kind) =>
    defineJob(kind, { payload: typed<number>(), uses: [api] }),
  );
  const ran: number[] = [];
  const staleness = vi.spyOn(Tokens.prototype, "isStale");
  onTestFinished(() => staleness.mockRestore());
  const workers = await twoWorkers(
    stint,
    jobs.map((job) => handle(job, ({ payload }) => void ran.push(payload))),
  );
  await stint.enqueueMany(Array.from({ length: 60 }, (_, n) => ({ job: jobs[n % 3]!, payload: n })));
  await until(async () => (await states(fresh))["succeeded"] === 60, { message: "all have run" });
  await stopAll(workers);

  expect(new Set(ran).size).toBe(60);
  const history = await tokenHistory(fresh);
  // On a busy machine, a job that would start more than a second after its tokens were taken takes them again.
  const late = staleness.mock.results.filter(({ value }) => value === true).length;
  expect(history.reduce((sum, { used }) => sum + used, 0)).toBe(60 + late);
  expect(overshoot(history, { limit: 40, perMs: 1_000, burst: 3 })).toBeLessThanOrEqual(0);
  const [row] = await fresh.sql(
    `select max(attempts) as attempts, sum(interruptions)::integer as interruptions from stint.jobs`,
  );
  expect(row).toEqual({ attempts: 1, interruptions: late });
  expect(await fresh.sql(`select * from stint.dependency_wait`)).toEqual([]);
});
