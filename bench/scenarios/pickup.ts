import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../core/clock.ts";
import { defineScenario, type Cell, type NodeVersion, type Variant } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";

type Pickup = Variant & { node: NodeVersion };

export const pickup = defineScenario<Pickup>({
  name: "pickup",
  what: "ms from the enqueue call to the start of the handler, on a queue that is otherwise idle",
  variants: () => [
    { name: "idle", node: "own" },
    { name: "idle, node 24", node: "24" },
  ],
  includes: ({ system, config, variant: { node }, quick }) => {
    if (node === "24") return system === "stint" && config === "default";
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
    await producer.call("paced", { count: warmUp + count, minGapMs, maxGapMs });

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

function pace({ system, config, quick }: Cell): Pace {
  // pg-boss starts one job every two seconds by default; jobs sent closer together would wait for each other.
  if (system === "pg-boss" && config === "default")
    return { warmUp: 1, count: 6, minGapMs: 2100, maxGapMs: 2400 };
  return { warmUp: 10, count: quick ? 30 : 200, minGapMs: 20, maxGapMs: 100 };
}
