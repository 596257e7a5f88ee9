import { setTimeout as sleep } from "node:timers/promises";
import { untilDrained } from "../core/drained.ts";
import { nowMs } from "../core/clock.ts";
import { residentMb } from "../core/proc.ts";
import {
  defineScenario,
  type Bench,
  type Cell,
  type Measurement,
  type NodeVersion,
  type Variant,
} from "../core/scenario.ts";

type Memory = Variant & { node: NodeVersion; heapOf: number | undefined };

const node24: Memory = { name: "1 process, node 24", node: "24", heapOf: undefined };

export const memory = defineScenario<Memory>({
  name: "memory",
  what: "MB of one worker process: resident when idle, resident at most while it drains, heap before and after many jobs",
  deadlineSeconds: 300,
  variants: (quick) => [
    { name: "1 process", node: "own", heapOf: undefined },
    ...(quick ? [] : [node24]),
    quick
      ? { name: "100k jobs", node: "own", heapOf: 100_000 }
      : { name: "1M jobs", node: "own", heapOf: 1_000_000 },
  ],
  includes: ({ system, config, variant: { node, heapOf }, quick }) => {
    if (config !== "default" || system === "ceiling") return false;
    if (system === "stint") return true;
    if (node === "24" || heapOf !== undefined) return false;
    return !quick || system === "graphile-worker";
  },
  measure: async (bench, cell) => {
    const { heapOf } = cell.variant;
    return heapOf === undefined ? await measureResident(bench, cell) : await measureHeap(bench, heapOf);
  },
});

async function measureResident(
  bench: Bench,
  { system, variant: { node }, quick }: Cell<Memory>,
): Promise<Measurement[]> {
  const [keeper, worker] = await Promise.all([
    bench.spawn(),
    bench.spawn(system === "stint" ? { node } : {}),
  ]);
  await keeper.call("prepare");
  await worker.call("work");
  await sleep(quick ? 2_000 : 6_000);
  const { now: idle } = await residentMb(worker.pid);

  const count = quick ? 20_000 : 50_000;
  await keeper.call("topUp", { count });
  // Some systems take hours for that many jobs. Their memory peaks early.
  const deadlineMs = nowMs() + (quick ? 2_000 : 15_000);
  while (nowMs() < deadlineMs && (await keeper.call("pending"))) await sleep(200);
  const { count: ran } = await worker.call("progress");
  if (ran < count) bench.note(`the peak is that of ${ran} jobs out of ${count}, in the time there was`);
  const { peak } = await residentMb(worker.pid);
  return [
    { suffix: "idle", unit: "MB", value: idle },
    { suffix: "peak in a drain", unit: "MB", value: peak },
  ];
}

async function measureHeap(bench: Bench, count: number): Promise<Measurement[]> {
  const [keeper, worker] = await Promise.all([bench.spawn(), bench.spawn({ execArgv: ["--expose-gc"] })]);
  // By then, code is compiled and buffers have reached their size.
  const warmUp = 20_000;
  await keeper.call("prepare");
  await keeper.call("fill", { count: warmUp });
  await worker.call("work");
  await untilDrained(keeper, [worker], warmUp);
  await sleep(1_000);
  const before = await worker.call("usage");

  await keeper.call("fill", { count });
  await untilDrained(keeper, [worker], warmUp + count);
  await sleep(1_000);
  const after = await worker.call("usage");
  const mb = 2 ** 20;
  return [
    { suffix: "heap before", unit: "MB", value: before.heapBytes / mb },
    { suffix: "heap after", unit: "MB", value: after.heapBytes / mb },
  ];
}
