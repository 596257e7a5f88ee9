import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { expireLeases, scripted, startWorkerProcess } from "../support/worker-process.ts";

const worker = { lease: "1h", maxCrashes: 50, pools: { default: 4 } } as const;
const settings = { kinds: ["scripted"], batch: { size: 4, wait: "50ms" }, worker } as const;

async function ended(fresh: Fresh): Promise<{ succeeded: number; jobs: number; live: number }> {
  const [row] = await fresh.sql<{ succeeded: number; jobs: number; live: number }>(
    `select (count(*) filter (where state = 'succeeded'))::int as succeeded, count(distinct id)::int as jobs,
       (select count(*) from stint.job)::int as live
     from stint.history`,
  );
  return row!;
}

test.each(slice(["claimed", "before-settle", "settled"] as const, (at) => at === "before-settle"))(
  "a worker killed with -9 in a batch loses and doubles no job: %s",
  async (dieAt) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await stint.enqueueMany(Array.from({ length: 30 }, () => entry(scripted, { do: "succeed" })));
    const first = await startWorkerProcess(fresh, { ...settings, dieAt });
    await first.ended;
    const { succeeded, live } = await ended(fresh);
    expect(succeeded + live).toBe(30);

    await expireLeases(fresh);
    await startWorkerProcess(fresh, settings);
    await until(async () => (await ended(fresh)).live === 0, { message: "all jobs end" });
    expect(await ended(fresh)).toEqual({ succeeded: 30, jobs: 30, live: 0 });
  },
);

test("a worker paused in a batch records only the jobs it still owns", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = await stint.enqueueMany(Array.from({ length: 2 }, () => entry(scripted, { do: "ignore" })));
  const [lost = "", kept = ""] = jobs.map(({ id }) => id);
  const paused = await startWorkerProcess(fresh, settings);
  await paused.reported("entered", lost);
  await paused.reported("entered", kept);
  paused.kill("SIGSTOP");
  await fresh.sql("update stint.job set lease_until = clock_timestamp() where id = $1", [lost]);

  const other = await startWorkerProcess(fresh, settings);
  await other.reported("entered", lost);
  other.go(lost);
  await stint.waitFor(lost, { timeout: "60s" });
  paused.go(lost);
  paused.go(kept);
  paused.kill("SIGCONT");
  await paused.reported("leaseLost", lost);
  await stint.waitFor(kept, { timeout: "60s" });
  expect(await ended(fresh)).toEqual({ succeeded: 2, jobs: 2, live: 0 });
});
