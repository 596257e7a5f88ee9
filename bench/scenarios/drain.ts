import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { cpuMsOf, cpuMsOfServer } from "../core/proc.ts";
import { defineScenario, type Bench, type Cell, type NodeVersion, type Variant } from "../core/scenario.ts";
import type { Actor } from "../actor/spawn.ts";

type Drain = Variant & { processes: number; node: NodeVersion };

/** As many jobs as each system drains in a few seconds: rates differ by a factor of ten thousand. */
const jobs: Record<string, { full: number; quick: number }> = {
  "stint default": { full: 300_000, quick: 40_000 },
  "stint fast": { full: 300_000, quick: 40_000 },
  "ceiling default": { full: 300_000, quick: 40_000 },
  "graphile-worker fast": { full: 300_000, quick: 40_000 },
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
  what: "jobs/s from the start of the workers until the store reports that nothing is pending, the first tenth, and CPU per job",
  variants: () => [
    { name: "1 process", processes: 1, node: "own" },
    { name: "2 processes", processes: 2, node: "own" },
    { name: "4 processes", processes: 4, node: "own" },
    { name: "1 process, node 24", processes: 1, node: "24" },
  ],
  includes: ({ system, config, variant: { processes, node }, quick }) => {
    if (node === "24") return system === "stint" && config === "default";
    if (system === "ceiling" && config === "fast") return false;
    const isOurs = system === "stint" || system === "ceiling";
    if (processes === 1) return !quick || config === (isOurs ? "default" : "fast");
    if (system === "ceiling") return processes === 2 && !quick;
    // The peers' default configs are measured in one variant only.
    if (system !== "stint" && config === "default") return false;
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

    const before = await cpuMs(bench, workers);
    const begunMs = nowMs();
    const started = Promise.all(workers.map((worker) => worker.call("work")));
    const [{ atMs, runs, tenthMs }] = await Promise.all([untilDrained(keeper, workers, count), started]);
    const after = await cpuMs(bench, workers);
    if (runs !== count) bench.note(`${runs} handlers ran for ${count} jobs`);
    const rate = (jobs: number, ms: number): number => (jobs * 1000) / ms;
    const rates = [
      { unit: "jobs/s", value: rate(count, atMs - begunMs) },
      { suffix: "first tenth", unit: "jobs/s", value: rate(count / 10, tenthMs - begunMs) },
      { suffix: "the rest", unit: "jobs/s", value: rate(0.9 * count, atMs - tenthMs) },
    ];
    if (cell.system.startsWith("bullmq-redis")) return rates;
    const perJob = (ms: number): number => (ms * 1000) / count;
    return [
      ...rates,
      { suffix: "server CPU per job", unit: "µs", value: perJob(after.server - before.server) },
      { suffix: "worker CPU per job", unit: "µs", value: perJob(after.workers - before.workers) },
    ];
  },
});

/** Processor time used by the server and the workers so far. */
async function cpuMs(
  { postgresPid }: Bench,
  workers: readonly Actor[],
): Promise<{ server: number; workers: number }> {
  const each = await Promise.all(workers.map(async ({ pid }) => await cpuMsOf(pid)));
  return { server: await cpuMsOfServer(postgresPid), workers: each.reduce((sum, ms) => sum + ms, 0) };
}

function countOf({ system, config, quick }: Cell): number {
  return jobs[`${system} ${config}`]?.[quick ? "quick" : "full"] ?? 1_000;
}
