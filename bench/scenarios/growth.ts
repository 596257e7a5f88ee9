import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import { crossings } from "../core/crossings.ts";
import { defineScenario, type Bench, type Variant } from "../core/scenario.ts";
import type { FillState } from "../core/types.ts";
import { payloadSql } from "../systems/sql.ts";

type Growth = Variant & { count: number; state: FillState | "parked" };

/** The measured jobs, after the warm-up. */
const jobs = { full: 40_000, quick: 20_000 };
const warmUp = 8_000;
/** Extra jobs in variants that do not drain the backlog itself, so that the end of the queue does not affect the rate. */
const spare = 5_000;

export const growth = defineScenario<Growth>({
  name: "growth",
  what: "jobs/s of one worker over its first jobs, with many other jobs in the store, and as a share of an empty store measured before and after",
  deadlineSeconds: 900,
  variants: (quick) => {
    if (quick)
      return [
        { name: "100k backlog", count: 100_000, state: "ready" },
        { name: "100k finished", count: 100_000, state: "finished" },
      ];
    return [
      { name: "1M backlog", count: 1_000_000, state: "ready" },
      { name: "5M backlog", count: 5_000_000, state: "ready" },
      { name: "1M scheduled", count: 1_000_000, state: "scheduled" },
      { name: "1M finished", count: 1_000_000, state: "finished" },
      { name: "5M finished", count: 5_000_000, state: "finished" },
      { name: "100k parked", count: 100_000, state: "parked" },
    ];
  },
  includes: ({ system, config, variant: { count, state }, quick }) => {
    if (system === "stint") return config === "default";
    if (quick || config !== "fast" || count > 1_000_000 || state === "parked") return false;
    // This system keeps no history.
    if (system === "graphile-worker") return state !== "finished";
    return system === "pg-boss";
  },
  measure: async (bench, { variant, quick }) => {
    const keeper = await bench.spawn();
    const total = quick ? jobs.quick : jobs.full;
    const settling = quick ? 0 : 1;
    const empty = (): Promise<number[]> =>
      slices(1, settling, async () => {
        await keeper.call("prepare");
        // Filled in the same way as the variant it is compared with.
        await keeper.call(variant.state === "ready" ? "fill" : "topUp", { count: total + spare });
        return await rate(bench, total);
      });
    const before = await empty();

    await keeper.call("prepare");
    await grow(bench, keeper, variant);
    const grown = await slices(quick ? 1 : 2, settling, async () => {
      if (variant.state !== "ready") await keeper.call("topUp", { count: total + spare });
      return await rate(bench, total);
    });
    const empties = quick ? before : [...before, ...(await empty())];
    return [
      { unit: "jobs/s", value: mean(grown) },
      { suffix: "(empty, same minute)", unit: "jobs/s", value: mean(empties) },
      { suffix: "of empty", unit: "%", value: (100 * mean(grown)) / mean(empties) },
    ];
  },
});

/** The first jobs after emptying or filling a store are not counted: the disk is still busy. */
async function slices(count: number, settling: number, one: () => Promise<number>): Promise<number[]> {
  const rates: number[] = [];
  for (let slice = 0; slice < settling + count; slice++) rates.push(await one());
  return rates.slice(settling);
}

async function grow(bench: Bench, keeper: Actor, { count, state }: Growth): Promise<void> {
  if (state !== "parked") return await keeper.call("fill", { count, state });
  const sql = await bench.connect();
  await sql.query(
    `insert into stint.job (id, kind, queue, state, park_reason, run_at, created_at, payload)
     select stint.new_id(), 'noop', 'default', 'parked', 'review', now(), now(), ${payloadSql} from generate_series(1, $1) n`,
    [count],
  );
  await sql.end();
}

/** Jobs/s of a fresh worker over the first `total` jobs. */
async function rate(bench: Bench, total: number): Promise<number> {
  const sql = await bench.connect();
  // Background writes of the fill must not fall into the measured time.
  await sql.query("vacuum analyze");
  await sql.query("checkpoint");
  await sql.end();
  const worker = await bench.spawn();
  await worker.call("work");
  const [fromMs = 0, toMs = 0] = await crossings(worker, [warmUp, total]);
  // A killed worker would leave running jobs, which another worker would have to rescue.
  await Promise.race([worker.call("close").catch(() => undefined), sleep(5_000)]);
  await worker.kill();
  return ((total - warmUp) * 1000) / (toMs - fromMs);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
