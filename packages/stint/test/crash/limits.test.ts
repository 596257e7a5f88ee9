import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { killInTurn, killInTurnMs } from "../support/kill-in-turn.ts";
import { inLab } from "../support/lab.ts";
import { createVisits, mostAtOnce } from "../support/visits.ts";

type Visit = { key: string; n: number; ms: number };

const capped = defineJob("capped", {
  payload: typed<Visit>(),
  limits: [
    { key: ({ key }) => key, max: 2 },
    { name: "all", max: 5 },
  ],
});
/** 14 is more than twice the 6 slots of a worker, so that workers have shares, and fewer than the slots of all three, so that shares are closed. */
const roomy = defineJob("roomy", { payload: typed<Visit>(), limits: [{ max: 14 }] });
const ordered = defineJob("ordered", { payload: typed<Visit>(), order: { key: ({ key }) => key } });

const program = fileURLToPath(new URL("../fixtures/limits-process.mjs", import.meta.url));
const jobs = Number(process.env["STINT_TEST_LIMITED_JOBS"] ?? 100_000);
const kills = 100;
const keys = 50;

/** How long an ordered key stood idle between the end of a job and the start of the next, in milliseconds. */
const handovers = (fresh: Fresh): Promise<unknown[]> =>
  fresh.sql(
    `select count(*)::integer as handovers, percentile_disc(0.5) within group (order by ms) as p50,
       percentile_disc(0.99) within group (order by ms) as p99, max(ms) as p100
     from (
       select extract(epoch from lead(entered) over (partition by key order by entered) - left_at)::float8 * 1000 as ms
       from stint.visit where kind = 'ordered'
     ) gaps
     where ms is not null`,
  );

test.runIf(inLab)(
  "no limit and no order is broken by kill -9 and pauses, and no job is forgotten",
  { timeout: killInTurnMs },
  async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await createVisits(fresh);
    for (let first = 0; first < jobs; first += 500) {
      await stint.enqueueMany(
        Array.from({ length: Math.min(500, jobs - first) }, (_, index) => {
          const n = first + index;
          const payload = { key: `k${Math.floor(n / 3) % keys}`, n, ms: n % 7 };
          return entry([capped, ordered, roomy][n % 3]!, payload);
        }),
      );
    }
    await killInTurn(fresh, { program, processes: 3, jobs, kills });

    const states = await fresh.sql(
      `select state::text, count(*)::integer as count from stint.history group by state`,
    );
    expect(states).toEqual([{ state: "succeeded", count: jobs }]);
    expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
    expect(await mostAtOnce(fresh, "kind", "roomy")).toBeLessThanOrEqual(14);
    expect(await mostAtOnce(fresh, "key", "capped")).toBeLessThanOrEqual(2);
    expect(await mostAtOnce(fresh, "kind", "capped")).toBeLessThanOrEqual(5);
    expect(await mostAtOnce(fresh, "key", "ordered")).toBe(1);
    process.stdout.write(`${JSON.stringify(await handovers(fresh))}\n`);
    // A job runs after all jobs before it in its key have succeeded.
    const passed = await fresh.sql(
      `select later.n from stint.visit later join stint.visit before on before.kind = later.kind and before.key = later.key and before.n < later.n
       where later.kind = 'ordered' and before.entered > later.entered`,
    );
    expect(passed).toEqual([]);
  },
);
