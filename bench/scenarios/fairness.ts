import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Measurement, type Variant } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";

type FairVariant = Variant & {
  readonly fair: boolean;
  readonly large: number;
  readonly small: number;
  readonly jobsOfSmall: number;
};

/** One tenant enqueues many jobs, then 99 tenants enqueue 10 each. */
const unequal = { large: 100_000, small: 99, jobsOfSmall: 10 };

export const fairness = defineScenario<FairVariant>({
  name: "fairness",
  what: "one tenant with many jobs, then 99 with 10 each: the wait of both classes from the start of the worker, and jobs/s; then as many jobs of 1 and of 10,000 tenants. Groups of BullMQ are not in its open edition",
  variants: (quick) => {
    const less = quick ? 10 : 1;
    return [
      { name: "plain", fair: false, ...unequal, large: unequal.large / less },
      { name: "fair", fair: true, ...unequal, large: unequal.large / less },
      { name: "fair, 1 tenant", fair: true, large: 100_000 / less, small: 0, jobsOfSmall: 0 },
      { name: "fair, 10,000 tenants", fair: true, large: 0, small: 10_000 / less, jobsOfSmall: 10 },
    ];
  },
  includes: ({ system, config, variant }) =>
    config === "fast" && (system === "stint" || (system === "bullmq-redis" && !variant.fair)),
  measure: async (bench, { variant: { fair, large, small, jobsOfSmall } }) => {
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
    const perSecond = (count * 1000) / (atMs - startedMs);
    const rate = { suffix: "all", unit: "jobs/s", value: perSecond };
    if (large === 0 || small === 0) return [rate];
    const percentiles = (size: string, own: number[]): Measurement[] => [
      { suffix: `${size} p50`, unit: "ms", value: percentile(own, 0.5) },
      { suffix: `${size} p95`, unit: "ms", value: percentile(own, 0.95) },
    ];
    return [
      ...percentiles("small", waits(false)),
      ...percentiles("large", waits(true)),
      // In perfect turns, a small tenant is done when every tenant had as many turns as it has jobs.
      {
        suffix: "last small, of its fair share",
        unit: "times",
        value: Math.max(...waits(false)) / (((small + 1) * jobsOfSmall * 1000) / perSecond),
      },
      rate,
    ];
  },
});
