import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineDependency, defineJob, entry, typed } from "#stint/index.js";
import { unusedSchema } from "../support/fresh.ts";
import { killInTurn, killInTurnMs } from "../support/kill-in-turn.ts";
import { inLab } from "../support/lab.ts";
import { overshoot, recordTokens, tokenHistory } from "../support/token-history.ts";

const rates = {
  api: { limit: 100, perMs: 1_000, burst: 10 },
  wide: { limit: 400, perMs: 1_000, burst: 60 },
};
const api = defineDependency("api", {
  concurrency: 5,
  rate: { limit: 100, per: "1s", burst: 10 },
  quota: { limit: 1_000_000, per: "month" },
});
const cheap = defineJob("cheap", { payload: typed<{ ms: number }>(), uses: [api] });
const costly = defineJob("costly", {
  payload: typed<{ ms: number }>(),
  uses: [{ dependency: api, cost: () => 3 }],
});
const wide = defineDependency("wide", {
  rate: { limit: 400, per: "1s", burst: 60 },
  quota: { limit: 1_000_000, per: "month" },
});
const quick = defineJob("quick", { payload: typed<{ ms: number }>(), uses: [wide] });
const kinds = [costly, quick, cheap, quick] as const;

const program = fileURLToPath(new URL("../fixtures/tokens-process.mjs", import.meta.url));
const jobs = Number(process.env["STINT_TEST_METERED_JOBS"] ?? 50_000);
const kills = 60;

test.runIf(inLab)(
  "kill -9 and pauses overdraw no bucket, and no waiting job is forgotten",
  { timeout: killInTurnMs },
  async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    await recordTokens(fresh);
    await fresh.sql(
      `create table stint.visit (job uuid, epoch bigint, kind text, pid integer, entered timestamptz, left_at timestamptz)`,
    );
    for (let first = 0; first < jobs; first += 500)
      await stint.enqueueMany(
        Array.from({ length: Math.min(500, jobs - first) }, (_, n) =>
          entry(kinds[n % kinds.length]!, { ms: n % 7 }),
        ),
      );
    await killInTurn(fresh, { program, processes: 2, jobs, kills });

    const history = await tokenHistory(fresh);
    const takenOf = (name: string): typeof history => history.filter((each) => each.name === name);
    const tokensOf = (name: string): number => takenOf(name).reduce((sum, { used }) => sum + used, 0);
    for (const [name, rate] of Object.entries(rates))
      expect(overshoot(takenOf(name), rate)).toBeLessThanOrEqual(0);
    const [visits] = await fresh.sql<{ api: number; wide: number; most: number }>(
      `select
         (select sum(case kind when 'costly' then 3 else 1 end) from stint.visit where kind <> 'quick')::integer as api,
         (select count(*) from stint.visit where kind = 'quick')::integer as wide,
         (select max(at_once) from (
           select sum(change) over (order by at, change rows unbounded preceding) as at_once
           from (
             select entered as at, 1 as change from stint.visit where kind <> 'quick'
             union all
             select coalesce(left_at, (select min(d.at) from stint.death d where d.pid = v.pid)), -1 from stint.visit v where kind <> 'quick'
           ) changes
         ) counted)::integer as most`,
    );
    // Each start has its own tokens. Those of killed processes may be lost.
    expect(tokensOf("api")).toBeGreaterThanOrEqual(visits!.api);
    expect(tokensOf("wide")).toBeGreaterThanOrEqual(visits!.wide);
    expect(visits!.most).toBeLessThanOrEqual(5);
    expect(await fresh.sql(`select * from stint.dependency_wait`)).toEqual([]);
    const states = await fresh.sql(
      `select state::text, count(*)::integer as count from stint.history group by state`,
    );
    expect(states).toEqual([{ state: "succeeded", count: jobs }]);
  },
);
