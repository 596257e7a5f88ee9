import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineDependency, defineJob, entry, typed } from "#stint/index.js";
import { unusedSchema } from "../support/fresh.ts";
import { killInTurn, killInTurnMs } from "../support/kill-in-turn.ts";
import { inLab } from "../support/lab.ts";
import { overshoot, recordTokens, tokenHistory } from "../support/token-history.ts";

const rate = { limit: 100, perMs: 1_000, burst: 10 };
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

const program = fileURLToPath(new URL("../fixtures/tokens-process.mjs", import.meta.url));
const jobs = Number(process.env["STINT_TEST_METERED_JOBS"] ?? (inLab ? 50_000 : 120));
const kills = inLab ? 60 : 2;

test(
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
          entry(n % 4 === 0 ? costly : cheap, { ms: n % 7 }),
        ),
      );
    await killInTurn(fresh, { program, processes: 2, jobs, kills });

    const history = await tokenHistory(fresh);
    expect(overshoot(history, rate)).toBeLessThanOrEqual(0);
    const [visits] = await fresh.sql<{ tokens: number; most: number }>(
      `select
         (select sum(case kind when 'costly' then 3 else 1 end) from stint.visit)::integer as tokens,
         (select max(at_once) from (
           select sum(change) over (order by at, change rows unbounded preceding) as at_once
           from (
             select entered as at, 1 as change from stint.visit
             union all
             select coalesce(left_at, (select min(d.at) from stint.death d where d.pid = v.pid)), -1 from stint.visit v
           ) changes
         ) counted)::integer as most`,
    );
    // Each start has its own tokens. Those of killed processes may be lost.
    expect(history.reduce((sum, { used }) => sum + used, 0)).toBeGreaterThanOrEqual(visits!.tokens);
    expect(visits!.most).toBeLessThanOrEqual(5);
    expect(await fresh.sql(`select * from stint.dependency_wait`)).toEqual([]);
    const states = await fresh.sql(
      `select state::text, count(*)::integer as count from stint.history group by state`,
    );
    expect(states).toEqual([{ state: "succeeded", count: jobs }]);
  },
);
