import type { Actor } from "../actor/spawn.ts";
import { nowMs } from "../core/clock.ts";
import { untilDrained } from "../core/drained.ts";
import { defineScenario, type Bench, type Variant } from "../core/scenario.ts";
import { median } from "../core/stats.ts";

const sides = ["unwatched", "watched", "traced"] as const;
type Side = (typeof sides)[number];
const scrapeEveryMs = 5_000;

export const eyes = defineScenario<Variant>({
  name: "eyes",
  what: "jobs/s of one process, unwatched; with the dashboard open and scraped every 5 s; with tracing and metrics on",
  deadlineSeconds: 300,
  variants: () => [{ name: "1 process" }],
  includes: ({ system, config }) => system === "stint" && config === "default",
  measure: async (bench, { quick }) => {
    const keeper = await bench.spawn();
    const count = quick ? 40_000 : 250_000;
    const rates = new Map<Side, number[]>(sides.map((side) => [side, []]));
    // There and back, so that a machine that grows slower or quicker meets all of them alike.
    const turn = [...sides, ...sides.toReversed()];
    for (const side of quick ? sides : [...turn, ...turn])
      rates.get(side)?.push(await slice({ bench, keeper, side, count }));
    const rateOf = (side: Side): number => median(rates.get(side) ?? []);
    return [
      ...sides.map((side) => ({ suffix: side, unit: "jobs/s", value: rateOf(side) })),
      {
        suffix: "watched against unwatched",
        unit: "%",
        value: (100 * rateOf("watched")) / rateOf("unwatched"),
      },
      {
        suffix: "traced against unwatched",
        unit: "%",
        value: (100 * rateOf("traced")) / rateOf("unwatched"),
      },
    ];
  },
});

type Slice = { bench: Bench; keeper: Actor; side: Side; count: number };

async function slice({ bench, keeper, side, count }: Slice): Promise<number> {
  await keeper.call("prepare");
  await keeper.call("fill", { count });
  const worker = await bench.spawn();
  const watcher = side === "watched" ? await bench.spawn() : undefined;
  await watcher?.call("watch", { everyMs: scrapeEveryMs });

  const begunMs = nowMs();
  const started = worker.call("stintWork", { traced: side === "traced" });
  const [{ atMs }] = await Promise.all([untilDrained(keeper, [worker], count), started]);
  if (watcher !== undefined) {
    const { answers } = await watcher.call("unwatch");
    if (answers === 0) bench.note("the watcher was not answered");
    await watcher.kill();
  }
  await worker.kill();
  return (count * 1000) / (atMs - begunMs);
}
