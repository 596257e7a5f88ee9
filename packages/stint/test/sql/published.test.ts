import { expect, test } from "vitest";
import { finish } from "#stint/sql/finish.js";
import { replay } from "#stint/sql/operate.js";
import { fold } from "#stint/sql/tallies.js";
import { freshSchema } from "../support/fresh.ts";
import { auditInfo, running } from "./jobs.ts";

test("jobs are folded and replayed in a database that publishes all tables", async () => {
  const fresh = await freshSchema();
  // Of this schema only: one for all tables would be for those of other tests, too.
  const tables = await fresh.sql<{ name: string }>(
    `select relname as name from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r'`,
    [`"${fresh.schema}"`],
  );
  const names = tables.map(({ name }) => name);
  expect(names).toContain("tally_delta");
  await fresh.sql(
    `create publication "${fresh.schema}" for table ${names.map((name) => `stint.${name}`).join(", ")}`,
  );
  for (const state of ["dead", "cancelled"] as const) {
    const fence = await running(fresh.db);
    await finish(fresh.db, [{ fence, state, result: null, reason: null, ending: { outcome: "failed" } }]);
    await replay(fresh.db, fence.job, auditInfo());
    await fresh.sql(`delete from stint.job`);
  }

  expect(await fold(fresh.db, 0)).toBe(6);
});
