import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";

const stepsPerJob = 20;
/** As many jobs as each system finishes in a few seconds. */
const jobs: Record<string, { full: number; quick: number }> = {
  stint: { full: 10_000, quick: 2_000 },
  dbos: { full: 500, quick: 150 },
};

export const steps = defineScenario<Variant>({
  name: "steps",
  what: `durable steps/s: jobs of ${stepsPerJob} steps, one after the other, each stored before the next starts`,
  variants: () => [{ name: "1 process" }],
  includes: ({ system, config, quick }) => system in jobs && (!quick || config === "fast"),
  measure: async (bench, { system, quick }) => {
    const count = jobs[system]?.[quick ? "quick" : "full"] ?? 100;
    const [keeper, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
    await keeper.call("prepare");
    await keeper.call("fill", { count });
    const begunMs = nowMs();
    const started = worker.call("workSteps", { steps: stepsPerJob });
    const [{ atMs }] = await Promise.all([untilDrained(keeper, [worker], count), started]);
    return [{ unit: "steps/s", value: (count * stepsPerJob * 1000) / (atMs - begunMs) }];
  },
});
