import { defineScenario, type Variant } from "../core/scenario.ts";

export const enqueueTx = defineScenario<Variant & { callers: number }>({
  name: "enqueue-tx",
  what: "transactions/s of 10 callers that each insert a business row, enqueue a job and commit",
  variants: () => [{ name: "10 callers", callers: 10 }],
  includes: ({ system, config }) => {
    if (system === "bullmq-redis" || system === "bullmq-postgres") return false;
    return config === (system === "stint" || system === "ceiling" ? "default" : "fast");
  },
  measure: async (bench, { variant: { callers }, quick }) => {
    const producer = await bench.spawn();
    await producer.call("prepare");
    const result = await producer.call("enqueueInTransaction", { callers, seconds: quick ? 1 : 4 });
    return [
      { unit: "jobs/s", value: result.calls / result.seconds },
      { suffix: "p50", unit: "ms", value: result.p50 },
      { suffix: "p99", unit: "ms", value: result.p99 },
    ];
  },
});
