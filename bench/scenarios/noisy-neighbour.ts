import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import type { StintWork } from "../actor/tasks/stint.ts";
import { defineScenario, type Bench, type Variant } from "../core/scenario.ts";

const rate = 1_000;
const connections = 4;
const warmUpSeconds = 0.5;

/** The concurrent load. Without wakes a worker also polls less often and so does less work; the 10 ms poll separates the two effects. */
const sides = {
  alone: undefined,
  "wakes on": { wake: "notify" },
  "wakes off": { wake: "none" },
  "wakes off, poll 10ms": { wake: "none", poll: "10ms" },
} as const satisfies Record<string, StintWork | undefined>;
type Side = keyof typeof sides;
const order = Object.keys(sides) as Side[];

export const noisyNeighbour = defineScenario<Variant>({
  name: "noisy-neighbour",
  what: "commits/s of another application's small transactions in the same database, alone and next to 1,000 single enqueues/s and their worker",
  deadlineSeconds: 300,
  variants: () => [{ name: `${connections} connections` }],
  includes: ({ system, config }) => system === "stint" && config === "default",
  measure: async (bench, { quick }) => {
    const [keeper, load] = await Promise.all([bench.spawn(), bench.spawn()]);
    const sql = await bench.connect();
    // Qualified names: the search path starts with the schema named like the user, which is Stint's and is emptied.
    await sql.query("drop table if exists public.neighbour_account, public.neighbour_log");
    await sql.query(
      "create table public.neighbour_account (id integer primary key, balance bigint not null)",
    );
    await sql.query("insert into public.neighbour_account select n, 0 from generate_series(1, 10000) n");
    await sql.query("create table public.neighbour_log (account integer, at timestamptz)");

    const seconds = quick ? 2 : 8;
    const rates = new Map<Side, number[]>(order.map((side) => [side, []]));
    // Runs the list forward and backward, so that drift of the machine's speed affects all of them equally.
    const turn = [...order, ...order.toReversed()];
    for (const side of quick ? order.slice(0, 3) : [...turn, ...turn]) {
      await keeper.call("prepare");
      await sql.query("truncate public.neighbour_log");
      rates.get(side)?.push(await slice({ bench, load, side, seconds }));
    }
    await sql.query("drop table public.neighbour_account, public.neighbour_log");
    const rateOf = (side: Side): number => mean(rates.get(side) ?? []);
    const share = (of: Side): number => (100 * rateOf("wakes on")) / rateOf(of);
    return [
      ...order.map((side) => ({ suffix: side, unit: "commits/s", value: rateOf(side) })),
      { suffix: "wakes on against off", unit: "%", value: share("wakes off") },
      { suffix: "wakes on against off, poll 10ms", unit: "%", value: share("wakes off, poll 10ms") },
    ].filter(({ value }) => !Number.isNaN(value));
  },
});

type Slice = { bench: Bench; load: Actor; side: Side; seconds: number };

async function slice({ bench, load, side, seconds }: Slice): Promise<number> {
  const measure = async (): Promise<number> => {
    const { commits, ...took } = await load.call("neighbourLoad", { connections, warmUpSeconds, seconds });
    return commits / took.seconds;
  };
  const options = sides[side];
  if (options === undefined) return await measure();

  const [producer, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
  await worker.call("stintWork", options);
  const sending = producer.call("stintOpenLoop", {
    wake: options.wake,
    rate,
    seconds: seconds + warmUpSeconds + 1,
  });
  await sleep(500);
  const commits = await measure();
  const { failed } = await sending;
  if (failed > 0) bench.note(`${failed} enqueues failed, ${side}`);
  await Promise.all([worker.kill(), producer.kill()]);
  return commits;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
