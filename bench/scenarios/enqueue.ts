import { defineScenario, type NodeVersion, type Variant } from "../core/scenario.ts";

type Enqueue = Variant & { callers: number; node: NodeVersion; bulk: boolean };

const bulkSize = 1_000;

export const enqueue = defineScenario<Enqueue>({
  name: "enqueue",
  what: "jobs/s from one process whose callers each await their own enqueue, and what one call takes",
  variants: (quick) => [
    ...(quick ? [10, 200] : [1, 10, 50, 200]).map((callers) => single(callers, "own")),
    { name: "bulk of 1000", callers: 1, node: "own", bulk: true },
    single(10, "24"),
  ],
  includes: ({ system, config, variant: { node } }) => {
    if (node === "24") return system === "stint" && config === "default";
    // Configs mostly tune workers; a peer's tuned config also has the larger connection pool.
    return config === (system === "stint" || system === "ceiling" ? "default" : "fast");
  },
  measure: async (bench, { system, variant, quick }) => {
    const producer = await bench.spawn(system === "stint" ? { node: variant.node } : {});
    await producer.call("prepare");
    const { callers } = variant;
    const seconds = quick ? 1 : 3;
    if (variant.bulk) {
      const { calls, ...bulk } = await producer.call("enqueueBulk", { callers, seconds, size: bulkSize });
      return [{ unit: "jobs/s", value: (calls * bulkSize) / bulk.seconds }];
    }
    const result = await producer.call("enqueue", { callers, seconds });
    return [
      { unit: "jobs/s", value: result.calls / result.seconds },
      { suffix: "p50", unit: "ms", value: result.p50 },
      { suffix: "p99", unit: "ms", value: result.p99 },
    ];
  },
});

function single(callers: number, node: NodeVersion): Enqueue {
  const name = `${callers} ${callers === 1 ? "caller" : "callers"}${node === "24" ? ", node 24" : ""}`;
  return { name, callers, node, bulk: false };
}
