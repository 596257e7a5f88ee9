import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";

type Limits = Variant & { readonly max: number | undefined };

const jobs: Record<string, { full: number; quick: number }> = {
  stint: { full: 200_000, quick: 40_000 },
  "graphile-worker": { full: 60_000, quick: 15_000 },
  "bullmq-redis": { full: 30_000, quick: 10_000 },
};

export const limits = defineScenario<Limits>({
  name: "limits",
  what: "jobs/s of two workers with empty handlers: without a limit over all workers, under one that does not bind, and under one of 10",
  variants: () => [
    { name: "no limit", max: undefined },
    { name: "limit of 10,000", max: 10_000 },
    { name: "limit of 10", max: 10 },
  ],
  includes: ({ system, config, variant: { max } }) => {
    if (config !== "fast" || jobs[system] === undefined) return false;
    // A named queue of graphile-worker runs one job at a time: 10,000 of them are no limit.
    return system !== "graphile-worker" || max !== 10_000;
  },
  measure: async (bench, { system, quick, variant: { max } }) => {
    const full = jobs[system]?.[quick ? "quick" : "full"] ?? 10_000;
    const count = max === 10 ? full / 10 : full;
    const [keeper, ...workers] = await Promise.all([bench.spawn(), bench.spawn(), bench.spawn()]);
    await keeper.call("prepare");
    await keeper.call("fill", { count });
    if (max !== undefined) await keeper.call("limit", { max });
    const begunMs = nowMs();
    const started = Promise.all(workers.map((worker) => worker.call("work")));
    const [{ atMs, runs }] = await Promise.all([untilDrained(keeper, workers, count), started]);
    if (runs !== count) bench.note(`${runs} handlers ran for ${count} jobs`);
    return [{ unit: "jobs/s", value: (count * 1000) / (atMs - begunMs) }];
  },
});
