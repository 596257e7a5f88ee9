import { expect, test } from "vitest";
import { adminClient, freshSchemaName, testDatabaseUrl } from "../support/database.ts";
import { healthyServer } from "../doctor/support.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { jsonOf, stint, stintOn } from "./support.ts";

type Document = {
  ok: boolean;
  counts: object;
  checks: { check: string; result: string }[];
  findings: { check: string }[];
};

const healthy = healthyServer();

/** An installation without one of its indexes. */
async function broken(): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh.sql("drop index stint.job_due");
  return fresh;
}

test("doctor exits with 0 if healthy, and with 1 for a warning only with --strict", async () => {
  const fresh = await freshSchema(healthy.url());
  const run = stintOn(fresh);

  const well = await run("doctor", "--strict");
  await fresh.sql("alter table stint.job reset (autovacuum_vacuum_threshold)");
  const [lenient, strict] = [await run("doctor"), await run("doctor", "--strict")];

  expect(well).toMatchObject({ code: 0, stderr: "" });
  expect(well.stdout).toMatch(/^\d+ checks, nothing found\.$/m);
  expect(lenient).toMatchObject({ code: 0, stdout: expect.stringContaining("1 warning.") });
  expect(strict.code).toBe(1);
});

test("doctor prints each check, each finding with its fix, and the totals", async () => {
  const { code, stdout } = await stintOn(await broken())("doctor");

  expect(code).toBe(1);
  expect(stdout).toMatch(/^CHECK +RESULT +SEEN\nserver +\w+ +Postgres /);
  expect(stdout).toMatch(/^drift +error +[\d,]+ definitions compared$/m);
  expect(stdout).toMatch(
    /^error An index is missing \(drift\)\n {2}index job_due\n {2}Fix: Make it again, without holding up writes: create index/m,
  );
  expect(stdout).toMatch(/^\d+ checks: \d+ errors?\b.*\.$/m);
});

test("doctor --json prints one document with the checks and the findings", async () => {
  const ended = await stintOn(await broken())("doctor", "--json");
  const document = jsonOf(ended) as Document;

  expect(ended).toMatchObject({ code: 1, stderr: "" });
  expect(document).toMatchObject({ ok: false, counts: { error: expect.any(Number) } });
  expect(document.checks).toContainEqual(expect.objectContaining({ check: "schema", result: "ok" }));
  expect(document.findings).toContainEqual({
    check: "drift",
    level: "error",
    title: "An index is missing",
    what: "index job_due",
    fix: expect.stringContaining("concurrently"),
  });
});

test("--patience sets how long a transaction may be open", async () => {
  const fresh = await freshSchema();
  const admin = await adminClient();
  await admin.query("set application_name = 'forgetful'");
  await admin.query("begin isolation level repeatable read");
  await admin.query("select 1");

  const { stdout } = await stintOn(fresh)("doctor", "--patience", "1ms");
  await admin.end();

  expect(stdout).toMatch(/pid \d+, application "forgetful", user \w+, idle in transaction/);
});

test("a database without an installation is an error with the command to install", async () => {
  const ended = await stint(["doctor", "--schema", freshSchemaName()], {
    env: { DATABASE_URL: testDatabaseUrl() },
  });

  expect(ended.code).toBe(1);
  expect(ended.stdout).toContain("Stint is not installed here");
  expect(ended.stdout).toContain("Run `npx stint migrate --schema ");
});

test("an unreachable database is reported as in other commands", async () => {
  const ended = await stint(["doctor"], {
    env: { DATABASE_URL: "postgres://nobody:secret@127.0.0.1:1/none" },
  });

  expect(ended).toMatchObject({ code: 1, stdout: "" });
  expect(ended.stderr).toContain("[DATABASE_UNAVAILABLE]");
  expect(ended.stderr).not.toContain("secret");
});
