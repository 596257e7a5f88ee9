import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../core/clock.ts";
import { defineScenario, type Cell, type NodeVersion, type Variant } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";

type Pickup = Variant & {
  node: NodeVersion;
  /** How many jobs run first, so that the code of worker and producer is compiled. */
  warmUp: number;
};

export const pickup = defineScenario<Pickup>({
  name: "pickup",
  what: "ms from the enqueue call to the start of the handler, on a queue that is otherwise idle",
  variants: () => [
    { name: "idle", node: "own", warmUp: 10 },
    // Workers run for days: the first jobs of a process are its slowest.
    { name: "idle, after 600 jobs", node: "own", warmUp: 600 },
    { name: "idle, node 24", node: "24", warmUp: 10 },
  ],
  includes: ({ system, config, variant: { node, warmUp }, quick }) => {
    if (node === "24") return system === "stint" && config === "default";
    if (warmUp > 10 && (quick || system === "pg-boss" || system === "dbos")) return false;
    if (system === "ceiling") return config === "fast";
    if (system === "stint" && config === "fast") return false;
    const slow = system === "dbos" || system === "bullmq-postgres";
    return !quick || system === "stint" || (config === "fast" && !slow);
  },
  measure: async (bench, cell) => {
    const own = cell.system === "stint" ? { node: cell.variant.node } : {};
    const [producer, worker] = await Promise.all([bench.spawn(own), bench.spawn(own)]);
    await producer.call("prepare");
    await worker.call("work");
    const { warmUp, count, minGapMs, maxGapMs } = pace(cell);
    await sleep(500);
    const gaps = warmUp > 10 ? { minGapMs: 5, maxGapMs: 15 } : { minGapMs, maxGapMs };
    await producer.call("paced", { count: warmUp, ...gaps });
    await producer.call("paced", { count, minGapMs, maxGapMs });

    const deadlineMs = nowMs() + 15_000;
    while ((await worker.call("progress")).count < warmUp + count) {
      if (nowMs() > deadlineMs) throw new Error("some jobs did not start within 15 s");
      await sleep(20);
    }
    const { ms } = await worker.call("latencies");
    const measured = ms.slice(warmUp);
    return [
      { suffix: "p50", unit: "ms", value: percentile(measured, 0.5) },
      { suffix: "p99", unit: "ms", value: percentile(measured, 0.99) },
    ];
  },
});

type Pace = { warmUp: number; count: number; minGapMs: number; maxGapMs: number };

function pace({ system, config, quick, variant }: Cell<Pickup>): Pace {
  // pg-boss starts one job every two seconds by default; jobs sent closer together would wait for each other.
  if (system === "pg-boss" && config === "default")
    return { warmUp: 1, count: 6, minGapMs: 2100, maxGapMs: 2400 };
  return { warmUp: variant.warmUp, count: quick ? 30 : 200, minGapMs: 20, maxGapMs: 100 };
}
