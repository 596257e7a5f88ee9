import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";

type FairVariant = Variant & { readonly fair: boolean };

const small = 99;
const jobsOfSmall = 10;

export const fairness = defineScenario<FairVariant>({
  name: "fairness",
  what: "one tenant with many jobs, then 99 with 10 each: the wait of both classes from the start of the worker, and jobs/s; groups of BullMQ are not in its open edition",
  variants: () => [
    { name: "plain", fair: false },
    { name: "fair", fair: true },
  ],
  includes: ({ system, config, variant }) =>
    config === "fast" && (system === "stint" || (system === "bullmq-redis" && !variant.fair)),
  measure: async (bench, { variant: { fair }, quick }) => {
    const large = quick ? 10_000 : 100_000;
    const count = large + small * jobsOfSmall;
    const [keeper, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
    await keeper.call("prepare");
    await keeper.call("enqueueTenants", { large, small, jobsOfSmall, fair });
    const { startedMs } = await worker.call("work");
    const { atMs } = await untilDrained(keeper, [worker], count);
    const { n, ms } = await worker.call("numberedLatencies");
    // Each job has the time 1 in its payload, so this is the time from the start of the worker.
    const waits = (isLarge: boolean): number[] =>
      ms.filter((_, index) => (n[index] ?? 0) < large === isLarge).map((each) => each + 1 - startedMs);
    return [
      ...(["small", "large"] as const).flatMap((size) => {
        const own = waits(size === "large");
        return [
          { suffix: `${size} p50`, unit: "ms", value: percentile(own, 0.5) },
          { suffix: `${size} p95`, unit: "ms", value: percentile(own, 0.95) },
        ];
      }),
      { suffix: "all", unit: "jobs/s", value: (count * 1000) / (atMs - startedMs) },
    ];
  },
});
