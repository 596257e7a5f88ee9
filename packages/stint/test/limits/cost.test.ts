import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { session } from "../sql/sessions.ts";
import { freshSchema } from "../support/fresh.ts";

const waiting = 10_000;

test("a freed place reads few blocks, however many jobs wait", async () => {
  const fresh = await freshSchema();
  const { client } = await session(fresh);
  const charge = defineJob("charge", {
    payload: typed<null>(),
    limits: [{ name: "account", key: () => "1", max: 1 }],
  });
  const stint = fresh.client({ jobs: [charge] });
  for (let n = 0; n < waiting; n += 1_000)
    await stint.enqueueMany(Array.from({ length: 1_000 }, () => entry(charge, null)));
  await client.query(
    forSchema(
      `insert into stint.limit (name, max, updated_by) values ('key:account', 1, 'test') on conflict do nothing;
       update stint.job set state = 'parked', park_reason = 'limit', has_follow_ups = true;
       insert into stint.limit_place (job_id, key, holds, run_at) select id, limits[1], false, run_at from stint.job;
       select stint.let_in('{key:account=1}')`,
      fresh.schema,
    ),
  );
  const blocks: number[] = [];
  // Few, and the fewest blocks count: each job that is let in leaves two dead entries, which are read as long as another test has an open transaction.
  for (let end = 0; end < 40; end++) {
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
      forSchema(
        `explain (analyze, buffers, timing off, format json)
         select stint.free_places(array_agg(p.job_id), array['succeeded']::stint.job_state[])
         from stint.limit_place p where p.key = 'key:account=1' and p.holds`,
        fresh.schema,
      ),
    );
    const plan = rows[0]!["QUERY PLAN"][0].Plan;
    blocks.push(plan["Shared Hit Blocks"]! + plan["Shared Read Blocks"]!);
  }
  const { rows: left } = await client.query<{ count: number }>(
    forSchema(`select count(*)::integer as count from stint.limit_place where not holds`, fresh.schema),
  );
  expect(left[0]!.count).toBe(waiting - 41);
  expect(Math.min(...blocks.slice(-20))).toBeLessThanOrEqual(150);
});
