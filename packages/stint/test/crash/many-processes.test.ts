import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { scripted, entered, startWorkerProcess } from "../support/worker-process.ts";

test("four processes share thousands of jobs, and each job runs exactly once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // A stall of the machine neither releases prefetched jobs nor makes a claim late: each job is claimed once.
  const options = { pools: { default: 20 }, lease: "60s", prefetch: "1h" } as const;
  const start = () => startWorkerProcess(fresh, { worker: options });
  const workers = await Promise.all([start(), start(), start(), start()]);

  const jobs: { id: string }[] = [];
  const enough = (): boolean => jobs.length >= 3_000 && workers.every((worker) => entered(worker).length > 0);
  while (!enough() && jobs.length < 60_000) {
    jobs.push(
      ...(await stint.enqueueMany(Array.from({ length: 500 }, () => entry(scripted, { do: "succeed" })))),
    );
  }
  await until(async () => (await fresh.sql("select from stint.job limit 1")).length === 0, {
    message: "every job has ended",
  });

  expect(entered(...workers).sort()).toEqual(jobs.map(({ id }) => `${id}/1`).sort());
  for (const worker of workers) expect(entered(worker).length).toBeGreaterThan(0);
  const ends = await fresh.sql(
    "select state, attempts, crashes, epoch::integer, count(*)::integer from stint.history group by 1, 2, 3, 4",
  );
  expect(ends).toEqual([{ state: "succeeded", attempts: 1, crashes: 0, epoch: 1, count: jobs.length }]);
});
