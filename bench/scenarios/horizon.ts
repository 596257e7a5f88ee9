import { crossings } from "../core/crossings.ts";
import { defineScenario, type Bench, type Cell, type Measurement, type Variant } from "../core/scenario.ts";
import { measureSteady } from "./horizon-steady.ts";

type Horizon = Variant & { steady: boolean; pinned: boolean };

const windows = 10;
/** Warm-up before the first window, which would otherwise be slow because the process is cold. */
const warmUp = 10_000;

export const horizon = defineScenario<Horizon>({
  name: "horizon",
  what: "one worker while a forgotten transaction pins the horizon: nothing that dies in the tables can be cleaned up",
  deadlineSeconds: 300,
  variants: (quick) => [
    { name: "drain", steady: false, pinned: true },
    ...(quick ? [] : [{ name: "drain, nothing pinned", steady: false, pinned: false }]),
    { name: "steady", steady: true, pinned: true },
  ],
  includes: ({ system, config, variant: { steady, pinned }, quick }) => {
    if (system === "stint") return config === "default";
    if (quick || steady || !pinned || config !== "fast") return false;
    return system === "graphile-worker" || system === "pg-boss";
  },
  measure: async (bench, cell) =>
    cell.variant.steady ? await measureSteady(bench, cell.quick, pin) : await measureDrain(bench, cell),
});

/** A forgotten session: its open transaction has a snapshot and a write. */
async function pin(bench: Bench): Promise<void> {
  const session = await bench.connect();
  await session.query("begin isolation level repeatable read");
  await session.query("select pg_current_xact_id(), count(*) from pg_class");
}

async function measureDrain(bench: Bench, { system, variant, quick }: Cell<Horizon>): Promise<Measurement[]> {
  const [keeper, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
  const count = countOf(system, quick);
  await keeper.call("prepare");
  await keeper.call("fill", { count: warmUp + count });
  const sql = await bench.connect();
  await sql.query("checkpoint");
  if (variant.pinned) await pin(bench);

  const size = count / windows;
  await worker.call("work");
  const edges = await crossings(
    worker,
    Array.from({ length: windows + 1 }, (_, index) => warmUp + index * size),
  );
  const rates = edges.slice(1).map((end, index) => (size * 1000) / (end - (edges[index] ?? end)));
  bench.note(`thousand jobs/s, window by window: ${rates.map((one) => (one / 1000).toFixed(1)).join(", ")}`);
  const [first = 0] = rates;
  const last = rates.at(-1) ?? 0;
  const [first3, last3] = [mean(rates.slice(0, 3)), mean(rates.slice(-3))];
  return [
    { suffix: "first window", unit: "jobs/s", value: first },
    { suffix: "last window", unit: "jobs/s", value: last },
    { suffix: "slowest window", unit: "jobs/s", value: Math.min(...rates) },
    { suffix: "last of first window", unit: "%", value: (100 * last) / first },
    // A longer window is less sensitive to other load on the machine.
    { suffix: "last three of first three windows", unit: "%", value: (100 * last3) / first3 },
  ];
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** 500,000 for Stint. The peers get fewer, because they slow down too much on the way. */
function countOf(system: string, quick: boolean): number {
  if (quick) return 100_000;
  return system === "stint" ? 500_000 : 200_000;
}
