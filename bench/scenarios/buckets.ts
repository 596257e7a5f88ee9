import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";

type Buckets = Variant & { readonly perSecond: number | undefined };

const binding = 2_000;
const jobs: Record<string, { full: number; quick: number }> = {
  stint: { full: 100_000, quick: 20_000 },
  "bullmq-redis": { full: 30_000, quick: 10_000 },
};

export const buckets = defineScenario<Buckets>({
  name: "buckets",
  what: "jobs/s of two workers with empty handlers: without a rate over all workers, with one that does not bind, and with one of 2,000 a second, after the first tenth",
  variants: () => [
    { name: "no rate", perSecond: undefined },
    { name: "1,000,000/s", perSecond: 1_000_000 },
    { name: "2,000/s", perSecond: binding },
  ],
  includes: ({ system, config }) => config === "fast" && jobs[system] !== undefined,
  measure: async (bench, { system, quick, variant: { perSecond } }) => {
    const full = jobs[system]?.[quick ? "quick" : "full"] ?? 10_000;
    const count = perSecond === binding ? 5 * binding : full;
    const [keeper, ...workers] = await Promise.all([bench.spawn(), bench.spawn(), bench.spawn()]);
    await keeper.call("prepare");
    await keeper.call("fill", { count });
    const begunMs = nowMs();
    const started = workers.map(async (worker) =>
      perSecond === undefined
        ? await worker.call("work")
        : await worker.call("workAtRate", { limit: perSecond, perMs: 1_000 }),
    );
    const [{ atMs, runs, tenthMs }] = await Promise.all([
      untilDrained(keeper, workers, count),
      Promise.all(started),
    ]);
    if (runs !== count) bench.note(`${runs} handlers ran for ${count} jobs`);
    // A full bucket at the start, and the start of the workers, say nothing about how much of a rate is used.
    const value =
      perSecond === binding ? (count * 900) / (atMs - tenthMs) : (count * 1000) / (atMs - begunMs);
    return [{ unit: "jobs/s", value }];
  },
});
