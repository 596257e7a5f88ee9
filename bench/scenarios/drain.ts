import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Cell, type NodeVersion, type Variant } from "../core/scenario.ts";

type Drain = Variant & { processes: number; node: NodeVersion };

/** So many that nobody takes long: rates differ by a factor of ten thousand. */
const jobs: Record<string, { full: number; quick: number }> = {
  "stint default": { full: 150_000, quick: 40_000 },
  "stint fast": { full: 150_000, quick: 40_000 },
  "ceiling default": { full: 150_000, quick: 40_000 },
  "graphile-worker fast": { full: 150_000, quick: 40_000 },
  "pg-boss fast": { full: 100_000, quick: 30_000 },
  "bullmq-redis fast": { full: 40_000, quick: 15_000 },
  "bullmq-postgres fast": { full: 6_000, quick: 1_500 },
  "dbos fast": { full: 5_000, quick: 1_500 },
  "graphile-worker default": { full: 5_000, quick: 1_000 },
  "bullmq-redis default": { full: 8_000, quick: 2_000 },
  "bullmq-postgres default": { full: 2_000, quick: 500 },
  "dbos default": { full: 2_500, quick: 1_000 },
  "pg-boss default": { full: 5, quick: 2 },
};

export const drain = defineScenario<Drain>({
  name: "drain",
  what: "jobs/s from the word go to idle and ready workers until the store says nothing is pending",
  variants: () => [
    { name: "1 process", processes: 1, node: "own" },
    { name: "2 processes", processes: 2, node: "own" },
    { name: "4 processes", processes: 4, node: "own" },
    { name: "1 process, node 24", processes: 1, node: "24" },
  ],
  includes: ({ system, config, variant: { processes, node }, quick }) => {
    if (node === "24") return system === "stint" && config === "default";
    const isOurs = system === "stint" || system === "ceiling";
    if (processes === 1) return !quick || config === (isOurs ? "default" : "fast");
    // The limit is that of one process; defaults are shown once.
    if (system === "ceiling" || (system !== "stint" && config === "default")) return false;
    if (system === "stint" && config === "fast") return false;
    return !quick || (processes === 2 && (system === "stint" || system === "graphile-worker"));
  },
  measure: async (bench, cell) => {
    const { processes, node } = cell.variant;
    const own = cell.system === "stint" ? { node } : {};
    const [keeper, ...workers] = await Promise.all([
      bench.spawn(),
      ...Array.from({ length: processes }, () => bench.spawn(own)),
    ]);
    const count = countOf(cell);
    await keeper.call("prepare");
    await keeper.call("fill", { count });

    const begunMs = nowMs();
    const started = Promise.all(workers.map((worker) => worker.call("work")));
    const [{ atMs, runs }] = await Promise.all([untilDrained(keeper, workers, count), started]);
    if (runs !== count) bench.note(`${runs} handlers ran for ${count} jobs`);
    return [{ unit: "jobs/s", value: (count * 1000) / (atMs - begunMs) }];
  },
});

function countOf({ system, config, quick }: Cell): number {
  return jobs[`${system} ${config}`]?.[quick ? "quick" : "full"] ?? 1_000;
}
