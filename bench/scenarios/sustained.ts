import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../core/clock.ts";
import { defineScenario, type NodeVersion, type Variant } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";
import type { SystemName } from "../systems/index.ts";

type Rate = Variant & { rate: number; node: NodeVersion };

// A job that has not started by then counts with its wait so far.
const graceMs = 1_000;

export const sustained = defineScenario<Rate>({
  name: "sustained",
  what: "single enqueues at a steady rate and one worker: jobs started per s, and ms from the intended time to the handler",
  variants: (quick) => [
    ...(quick ? [1000, 3000] : [200, 1000, 3000]).map((rate) => steady(rate, "own")),
    ...(quick ? [] : [steady(1000, "24"), steady(3000, "24")]),
  ],
  includes: ({ system, config, variant: { rate, node }, quick }) => {
    if (node === "24") return system === "stint" && config === "default";
    if (system === "ceiling" || config !== (system === "stint" ? "default" : "fast")) return false;
    if (quick && system !== "stint")
      return rate === 1000 && (system === "graphile-worker" || system === "bullmq-redis");
    return mayHold(system) >= rate;
  },
  measure: async (bench, { system, variant: { rate, node }, quick }) => {
    const own = system === "stint" ? { node } : {};
    const [producer, worker] = await Promise.all([bench.spawn(own), bench.spawn(own)]);
    await producer.call("prepare");
    await worker.call("work");
    // Warm-up: the first jobs would measure loading and connecting.
    await producer.call("paced", { count: 20, minGapMs: 5, maxGapMs: 15 });
    await sleep(500);
    const before = (await worker.call("progress")).count;

    const seconds = quick ? 3 : 15;
    const begunMs = nowMs();
    const sending = producer.call("openLoop", { rate, seconds });
    // At overload, calls return long after the end; the cell does not wait for them.
    sending.then(
      ({ failed, firstError }) =>
        failed > 0 && bench.note(`${failed} enqueues failed, the first of them: ${firstError}`),
      () => undefined,
    );
    await sleep(seconds * 1000);
    const started = (await worker.call("progress")).count - before;
    await sleep(graceMs);
    const seen = (await worker.call("latencies")).ms.slice(before);
    const endedMs = nowMs();
    const waiting = Array.from(
      { length: Math.max(0, rate * seconds - seen.length) },
      (_, n) => endedMs - begunMs - seconds * 1000 + (n * 1000) / rate,
    );
    if (waiting.length > 0)
      bench.note(`does not hold it: ${waiting.length} of ${rate * seconds} jobs had not started`);
    const all = [...seen, ...waiting];
    return [
      { suffix: "started", unit: "jobs/s", value: started / seconds },
      { suffix: "p50", unit: "ms", value: percentile(all, 0.5) },
      { suffix: "p99", unit: "ms", value: percentile(all, 0.99) },
    ];
  },
});

function steady(rate: number, node: NodeVersion): Rate {
  return { name: `${rate}/s${node === "24" ? ", node 24" : ""}`, rate, node };
}

/** The highest rate. A higher rate would only measure how fast a backlog grows. */
function mayHold(system: SystemName): number {
  return system === "stint" || system === "bullmq-redis" ? 3000 : 1000;
}
