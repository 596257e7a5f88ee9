import { expect, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { unusedSchema } from "../support/fresh.ts";
import { prepare } from "./explain.ts";
import { calls } from "./statements.ts";

/** Planning one of these takes longer than running it for a single job. */
const hot = [
  "claim",
  "claimOnward",
  "claimPools",
  "claimPoolsOnward",
  "claimInShares",
  "claimOnwardInShares",
  "succeed",
  "finish",
  "requeue",
  "renew",
];

// One schema for all, which no other test has filled: costs decide which plan is kept.
test("hot statements are planned anew only for their first executions", async () => {
  const fresh = await unusedSchema();
  const plans: Record<string, unknown> = {};
  for (const name of hot) {
    const client = await adminClient(fresh.url);
    const values = await prepare(client, fresh.schema, calls[name]!);
    for (let n = 0; n < 10; n++) await client.query(`execute plan (${values})`);
    const { rows } = await client.query(
      `select custom_plans::integer, generic_plans::integer from pg_prepared_statements where name = 'plan'`,
    );
    plans[name] = rows;
    await client.end();
  }

  // Postgres compares five plans for given values with the plan for any values.
  expect(plans).toEqual(
    Object.fromEntries(hot.map((name) => [name, [{ custom_plans: 5, generic_plans: 5 }]])),
  );
});
