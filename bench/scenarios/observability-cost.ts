import type { Actor } from "../actor/spawn.ts";
import type { Telemetry } from "../actor/tasks/stint.ts";
import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Bench, type Variant } from "../core/scenario.ts";
import { median } from "../core/stats.ts";

/** Every observability setting. With tracing, jobs carry the traces of their enqueues, sampled at the same rate. */
const sides = {
  unwatched: undefined,
  watched: undefined,
  metrics: { metrics: true },
  "traced, none sampled": { sampled: 0 },
  "traced, 10 % sampled": { sampled: 0.1 },
  traced: { sampled: 1 },
} as const satisfies Record<string, Telemetry | undefined>;
type Side = keyof typeof sides;
const allNames = Object.keys(sides) as Side[];
const fewNames: readonly Side[] = ["unwatched", "watched", "traced"];
const workingNames: readonly Side[] = ["unwatched", "metrics", "traced, 10 % sampled", "traced"];

type Cost = Variant & { workMs: number };

const scrapeEveryMs = 5_000;

export const observabilityCost = defineScenario<Cost>({
  name: "observability-cost",
  what: "jobs/s and processor time per job of one process: unwatched; with the dashboard open and scraped every 5 s; with metrics; with traces",
  deadlineSeconds: 900,
  variants: (quick) => [
    { name: "1 process", workMs: 0 },
    ...(quick ? [] : [{ name: "1 process, jobs of half a millisecond", workMs: 0.5 }]),
  ],
  includes: ({ system, config }) => system === "stint" && config === "default",
  measure: async (bench, { quick, variant: { workMs } }) => {
    const keeper = await bench.spawn();
    const names = quick ? fewNames : workMs > 0 ? workingNames : allNames;
    const count = quick ? 40_000 : workMs > 0 ? 10_000 : 250_000;
    const drained = new Map<Side, Drained[]>(names.map((side) => [side, []]));
    // Runs the list forward and backward, so that drift of the machine's speed affects all of them equally.
    const turn = [...names, ...names.toReversed()];
    for (const side of quick ? names : [...turn, ...turn])
      drained.get(side)?.push(await slice({ bench, keeper, side, count, workMs }));
    const of = (side: Side, figure: keyof Drained): number =>
      median((drained.get(side) ?? []).map((each) => each[figure]));
    const share = (side: Side): number => (100 * of(side, "rate")) / of("unwatched", "rate");
    return [
      ...names.map((side) => ({ suffix: side, unit: "jobs/s", value: of(side, "rate") })),
      ...names.map((side) => ({ suffix: side, unit: "µs/job", value: of(side, "cpuUs") })),
      ...names
        .filter((side) => side !== "unwatched")
        .map((side) => ({ suffix: `${side} against unwatched`, unit: "%", value: share(side) })),
    ];
  },
});

/** `cpuUs`: processor time of the worker's process per job. */
type Drained = { readonly rate: number; readonly cpuUs: number };
type Slice = { bench: Bench; keeper: Actor; side: Side; count: number; workMs: number };

async function slice({ bench, keeper, side, count, workMs }: Slice): Promise<Drained> {
  const telemetry: Telemetry | undefined = sides[side];
  await keeper.call("prepare");
  if (telemetry?.sampled === undefined) await keeper.call("fill", { count });
  else await keeper.call("stintFill", { count, sampled: telemetry.sampled });
  const worker = await bench.spawn();
  const watcher = side === "watched" ? await bench.spawn() : undefined;
  await watcher?.call("watch", { everyMs: scrapeEveryMs });

  const before = await worker.call("usage");
  const begunMs = nowMs();
  const started = worker.call("stintWork", { workMs, ...(telemetry === undefined ? {} : { telemetry }) });
  const [{ atMs }] = await Promise.all([untilDrained(keeper, [worker], count), started]);
  const after = await worker.call("usage");
  if (watcher !== undefined) {
    const { responses } = await watcher.call("unwatch");
    if (responses === 0) bench.note("the watcher got no responses");
    await watcher.kill();
  }
  await worker.kill();
  return {
    rate: (count * 1000) / (atMs - begunMs),
    cpuUs: (1000 * (after.cpuMs - before.cpuMs)) / count,
  };
}
