import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { killInTurn, killInTurnMs } from "../support/kill-in-turn.ts";
import { inLab } from "../support/lab.ts";

type Visit = { key: string; n: number; ms: number };

const capped = defineJob("capped", {
  payload: typed<Visit>(),
  limits: [
    { key: ({ key }) => key, max: 2 },
    { name: "all", max: 5 },
  ],
});
const ordered = defineJob("ordered", { payload: typed<Visit>(), order: { key: ({ key }) => key } });

const program = fileURLToPath(new URL("../fixtures/limits-process.mjs", import.meta.url));
const jobs = Number(process.env["STINT_TEST_LIMITED_JOBS"] ?? (inLab ? 100_000 : 160));
const kills = inLab ? 100 : 3;
const keys = inLab ? 50 : 4;

/** The largest number of handlers that ran at one moment in a group of visits. A killed handler ran until its process was dead. */
const mostAtOnce = (fresh: Fresh, group: string, kind: string): Promise<{ most: number }[]> =>
  fresh.sql(
    `select coalesce(max(at_once), 0)::integer as most
     from (
       select sum(change) over (partition by grouped order by at, change rows unbounded preceding) as at_once
       from (
         select ${group} as grouped, entered as at, 1 as change from stint.visit where kind = $1
         union all
         select ${group}, coalesce(left_at, (select min(d.at) from stint.death d where d.pid = v.pid)), -1
         from stint.visit v where kind = $1
       ) changes
     ) counted`,
    [kind],
  );

test(
  "no limit and no order is broken by kill -9 and pauses, and no job is forgotten",
  { timeout: killInTurnMs },
  async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await fresh.sql(
      `create table stint.visit (job uuid, epoch bigint, kind text, key text, n integer, pid integer, entered timestamptz, left_at timestamptz)`,
    );
    for (let first = 0; first < jobs; first += 500) {
      await stint.enqueueMany(
        Array.from({ length: Math.min(500, jobs - first) }, (_, index) => {
          const n = first + index;
          const payload = { key: `k${n % keys}`, n, ms: n % 7 };
          return n % 2 === 0 ? entry(capped, payload) : entry(ordered, payload);
        }),
      );
    }
    await killInTurn(fresh, { program, processes: 3, jobs, kills });

    const states = await fresh.sql(
      `select state::text, count(*)::integer as count from stint.history group by state`,
    );
    expect(states).toEqual([{ state: "succeeded", count: jobs }]);
    expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
    expect((await mostAtOnce(fresh, "key", "capped"))[0]!.most).toBeLessThanOrEqual(2);
    expect((await mostAtOnce(fresh, "kind", "capped"))[0]!.most).toBeLessThanOrEqual(5);
    expect((await mostAtOnce(fresh, "key", "ordered"))[0]!.most).toBe(1);
    // A job runs after all jobs before it in its key have succeeded.
    const passed = await fresh.sql(
      `select later.n from stint.visit later join stint.visit before on before.kind = later.kind and before.key = later.key and before.n < later.n
       where later.kind = 'ordered' and before.entered > later.entered`,
    );
    expect(passed).toEqual([]);
  },
);
