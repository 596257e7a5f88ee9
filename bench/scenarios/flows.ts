import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";
import { jobsIn, type FlowShape } from "../core/types.ts";

type FlowVariant = Variant & { readonly shape: FlowShape };

export const flows = defineScenario<FlowVariant>({
  name: "flows",
  what: "jobs that wait for others, jobs/s from the enqueue to the end of the last: a tree of two levels, and one job that waits for all others",
  variants: () => [
    { name: "flow of 1,000", shape: { groups: 27, leaves: 36 } },
    { name: "flow of 10,000", shape: { groups: 99, leaves: 100 } },
    { name: "fan-in of 1,000", shape: { groups: 0, leaves: 1_000 } },
    { name: "fan-in of 10,000", shape: { groups: 0, leaves: 10_000 } },
  ],
  includes: ({ system, config, variant, quick }) => {
    if (config !== "fast" || !["stint", "bullmq-redis", "dbos"].includes(system)) return false;
    // A root workflow of DBOS starts its children one by one: 10,000 of them take minutes.
    if (system === "dbos" && jobsIn(variant.shape) > 2_000) return false;
    return !quick || jobsIn(variant.shape) < 2_000;
  },
  measure: async (bench, { variant: { shape } }) => {
    const count = jobsIn(shape);
    const [keeper, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
    await keeper.call("prepare");
    await worker.call("workFlows");
    const begunMs = nowMs();
    const { atMs: enqueuedMs } = await keeper.call("enqueueFlow", shape);
    const { atMs } = await untilDrained(keeper, [worker], count);
    return [
      { unit: "jobs/s", value: (count * 1000) / (atMs - begunMs) },
      { suffix: "enqueue", unit: "µs/job", value: ((enqueuedMs - begunMs) * 1000) / count },
    ];
  },
});
