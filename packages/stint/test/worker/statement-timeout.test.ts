import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { grantSql } from "#stint/sql/grants.js";
import { query } from "../support/database.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { slice } from "../support/lab.ts";

const work = defineJob("work", { payload: typed<object>(), maxCrashes: 1 });
const leaseMs = 8_000;

/** A worker's connection string whose role has time limits of 200 ms. */
async function limitedRole(fresh: Fresh): Promise<string> {
  const role = `role_${randomBytes(6).toString("hex")}`;
  await query(`create role "${role}" login nosuperuser password 'secret'`);
  onTestFinished(async () => {
    await query(`drop owned by "${role}" cascade`).catch(() => undefined);
    await query(`drop role "${role}"`).catch(() => undefined);
  });
  const [{ name } = { name: "" }] = await query<{ name: string }>("select current_database() as name");
  await query(grantSql("worker", { role, database: name, schema: fresh.schema }));
  for (const limit of ["statement_timeout", "lock_timeout", "transaction_timeout"])
    if ((await query("select from pg_settings where name = $1", [limit])).length > 0)
      await query(`alter role "${role}" set ${limit} = '200ms'`);
  const url = new URL(fresh.url);
  [url.username, url.password] = [role, "secret"];
  return url.href;
}

/** Make such changes of a job take longer than the limit of the role. */
async function slowDown(fresh: Fresh, when: string): Promise<void> {
  await fresh.sql(`create function stint.slow_down() returns trigger language plpgsql as $$
    begin
      perform pg_sleep(0.4);
      return coalesce(new, old);
    end $$`);
  await fresh.sql(`create trigger slow_down before ${when} execute function stint.slow_down()`);
}

const slow = {
  claim: "update on stint.job for each row when (old.state = 'ready' and new.state = 'running')",
  renewal: "update on stint.job for each row when (old.state = 'running' and new.state = 'running')",
  settle: "delete on stint.job for each row",
};

const cases = Object.entries(slow).flatMap(([name, when]) => [
  { name, when, way: "direct", options: {} },
  { name, when, way: "pooled", options: { prepare: false } },
]);

test.each(slice(cases, ({ name, way }) => (name === "renewal") === (way === "pooled")))(
  "a slow $name counts no crash under short time limits of the role ($way)",
  async ({ when, options }) => {
    const fresh = await unusedSchema();
    const database = await limitedRole(fresh);
    await slowDown(fresh, when);
    await fresh.client().enqueueMany([entry(work, {}), entry(work, {})]);
    const end = gate();
    const { all } = await startWorker(fresh.client({ database, ...options }), {
      lease: leaseMs,
      handlers: [handle(work, () => end.opened)],
    });
    await until(() => all("began").length === 2, { message: "both have begun" });
    const [{ lease } = { lease: new Date() }] = await fresh.sql<{ lease: Date }>(
      "select max(lease_until) as lease from stint.job",
    );
    await until(
      async () =>
        (await fresh.sql("select from stint.job where clock_timestamp() < $1", [lease])).length === 0,
      { message: "the first lease is over" },
    );
    end.open();
    await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
      message: "every job has ended",
    });

    expect(all("leaseLost")).toEqual([]);
    expect(await fresh.sql("select state, crashes, attempts from stint.jobs")).toEqual(
      [1, 2].map(() => ({ state: "succeeded", crashes: 0, attempts: 1 })),
    );
  },
);
