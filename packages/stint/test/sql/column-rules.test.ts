import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";

test("the table of jobs has one constraint; the rules of values are those of domains", async () => {
  const fresh = await freshSchema();

  const rules = await fresh.sql(
    `select c.conname as name from pg_constraint c where c.conrelid = 'stint.job'::regclass and c.contype = 'c'`,
  );

  // Every statement that writes a job parses each constraint of the table: 5 µs for a claim of a single job.
  expect(rules).toEqual([{ name: "job_is_live" }]);
});

test("a condition on the view of all jobs is applied by an index of each table", async () => {
  const fresh = await freshSchema();
  for (const column of ["key", "id"]) {
    const value = column === "id" ? "gen_random_uuid()" : "'invoice:1'";
    const rows = await fresh.sql<{ "QUERY PLAN": string }>(
      `explain select * from stint.jobs where ${column} = (select ${value})`,
    );
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");

    // The live jobs, the dead jobs, and at least one partition of the others.
    expect(plan.match(/Index Cond: \(+(key|id)/g)?.length).toBeGreaterThanOrEqual(3);
    expect(plan).not.toMatch(/Filter: \(+(key|id)/);
  }
});
