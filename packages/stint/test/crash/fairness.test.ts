import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { expireLeases, scripted, startWorkerProcess } from "../support/worker-process.ts";

/** Leases are long: only the test ends them. */
const worker = { lease: "1h", rescueEvery: 300, pools: { default: 4 }, maxCrashes: 100 } as const;

test.each(slice(["claimed", "before-settle", "settled"] as const, (dieAt) => dieAt === "before-settle"))(
  "no job of a fair queue is lost or doubled by kill -9: %s",
  { timeout: 240_000 },
  async (dieAt) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await stint.queueSettings.set("default", { fair: "tenant" }, { reason: "test" });
    const jobs = await stint.enqueueMany(
      Array.from({ length: 60 }, (_, n) =>
        entry(scripted, { do: "succeed" }, { tenant: n < 40 ? "large" : `t${n % 5}` }),
      ),
    );
    for (const _ of [1, 2]) {
      const doomed = await startWorkerProcess(fresh, { dieAt, worker });
      expect(await doomed.ended).toMatchObject({ signal: "SIGKILL" });
      await expireLeases(fresh);
    }
    await startWorkerProcess(fresh, { worker });
    await until(async () => (await fresh.sql(`select from stint.job`)).length === 0, {
      message: "every job has ended",
      deadlineMs: 120_000,
    });

    const ended = await fresh.sql<{ state: string; count: number }>(
      `select state::text, count(distinct id)::integer as count from stint.history group by state`,
    );
    expect(ended).toEqual([{ state: "succeeded", count: jobs.length }]);
  },
);
