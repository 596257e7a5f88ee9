import { expect, test } from "vitest";
import { adminClient, freshSchemaName, query } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { all, findingsOf, healthyServer, lookAt, of } from "./support.ts";

const server = healthyServer();

test("a healthy installation is green, and the doctor leaves nothing behind", async () => {
  const fresh = await freshSchema(server.url());
  const schemas = async (): Promise<unknown[]> =>
    await fresh.sql("select nspname from pg_namespace order by 1");
  const before = await schemas();

  const report = await lookAt(fresh);

  expect(all(report)).toEqual([]);
  expect(report.checks.length).toBeGreaterThan(14);
  expect(await schemas()).toEqual(before);
});

test("a missing schema is the only finding", async () => {
  const report = await lookAt({ url: server.url(), schema: freshSchemaName() });

  expect(of(report, "schema")).toMatchObject([
    {
      level: "error",
      title: "Stint is not installed here",
      fix: expect.stringContaining("npx stint migrate"),
    },
  ]);
  expect(report.checks.map((one) => one.check)).not.toContain("drift");
});

test("a schema of an older release is an error with the command to migrate", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("delete from stint.migration where version = (select max(version) from stint.migration)");

  expect(await findingsOf(fresh, "schema")).toMatchObject([
    { level: "error", title: "The schema is older than this release" },
  ]);
});

test.each([
  [0, "note", "The schema is newer than this release, and still supports it"],
  [999, "error", "The schema is newer than this release and no longer supports it"],
])("a schema of a newer release that serves code from %d on is a %s", async (oldest, level, title) => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("insert into stint.migration values (999, 'future', $1, '')", [oldest]);

  expect(await findingsOf(fresh, "schema")).toMatchObject([{ level, title }]);
});

test("an applied migration with a different text is reported", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("update stint.migration set checksum = 'other' where version = 2");

  expect(await findingsOf(fresh, "schema")).toMatchObject([{ level: "warning", what: "2 helpers" }]);
});

const drifts = [
  [
    "drop index stint.job_due",
    "error",
    "An index is missing",
    "index job_due",
    "create index concurrently job_due on",
  ],
  [
    "alter table stint.job drop column reason cascade",
    "error",
    "Part of the schema is missing",
    "column job.reason",
    "stint migrate --sql",
  ],
  [
    "alter table stint.job alter column priority set default 5",
    "error",
    "Part of the schema was changed",
    "column job.priority",
    "Put it back",
  ],
  [
    "alter table stint.job drop constraint job_is_live",
    "error",
    "Part of the schema is missing",
    "constraint job_is_live of table job",
    "stint migrate",
  ],
  [
    "alter domain stint.job_meta drop constraint job_meta_is_an_object",
    "error",
    "Part of the schema is missing",
    "constraint job_meta_is_an_object of domain job_meta",
    "stint migrate",
  ],
  [
    "create or replace function stint.append_attempt(log jsonb, entry jsonb) returns jsonb language sql as 'select null::jsonb'",
    "error",
    "Part of the schema was changed",
    "function append_attempt",
    "create or replace function",
  ],
  [
    "create index mine on stint.job (tenant)",
    "note",
    "The schema holds an object that Stint did not create",
    "index mine",
    "Drop it unless you need it",
  ],
  [
    "alter table stint.job reset (autovacuum_vacuum_threshold)",
    "warning",
    "Storage settings of a table were changed",
    "table job has",
    "set (autovacuum_vacuum_threshold=2000)",
  ],
  [
    "alter table stint.worker set (autovacuum_freeze_max_age = 100000)",
    "warning",
    "Storage settings of a table were changed",
    "table worker has",
    "reset (autovacuum_freeze_max_age)",
  ],
] as const;

// All in one schema: each look at a schema installs another one, to compare with.
test("every change of the schema is drift, with its level and its fix", async () => {
  const fresh = await freshSchema(server.url());
  for (const [change] of drifts) await fresh.sql(change);

  const findings = await findingsOf(fresh, "drift");

  for (const [, level, title, what, fix] of drifts)
    expect(findings).toContainEqual({
      level,
      title,
      what: expect.stringContaining(what),
      fix: expect.stringContaining(fix),
    });
});

test("the fixes of drift repair it", async () => {
  const fresh = await freshSchema(server.url());
  for (const change of [
    "drop index stint.job_due",
    "drop index stint.job_dedupe",
    "drop index stint.history_key",
    "alter table stint.job reset (autovacuum_vacuum_threshold), set (fillfactor = 90)",
  ])
    await fresh.sql(change);

  const findings = await findingsOf(fresh, "drift");
  const wholes = ["index job_due", "index job_dedupe", "index history_key"];
  for (const { what, fix } of findings) {
    // The indexes of partitions come back with that of the whole table.
    if (what.startsWith("index ") && !wholes.includes(what)) continue;
    await query(fix.replace(/^[^:]+: /, ""), [], fresh.url);
  }

  expect(findings.map(({ what }) => what)).toEqual(expect.arrayContaining(wholes));
  expect(await findingsOf(fresh, "drift")).toEqual([]);
});

test("an invalid index is found, and its fix repairs it", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql(
    "insert into stint.audit (id, actor, action, job_id) select gen_random_uuid(), 'a', 'b', gen_random_uuid() from generate_series(1, 2)",
  );
  await fresh.sql("create unique index concurrently twice on stint.audit (actor)").catch(() => undefined);

  const [finding] = await findingsOf(fresh, "indexes");

  expect(finding).toMatchObject({ level: "error", what: "index twice of table audit" });
  await fresh.sql("delete from stint.audit");
  await query(finding!.fix.replace(/^[^:]+: /, ""), [], fresh.url);
  expect(await findingsOf(fresh, "indexes")).toEqual([]);
});

test("a role that may not create schemas gets a note, and all other checks", async () => {
  const fresh = await freshSchema(server.url());
  const role = `reader_${fresh.schema}`;
  await fresh.sql(`create role "${role}" login password 'secret'`);
  await fresh.sql(`grant usage on schema "${fresh.schema}" to "${role}"`);
  await fresh.sql(`grant select on all tables in schema "${fresh.schema}" to "${role}"`);
  const url = new URL(fresh.url);
  [url.username, url.password] = [role, "secret"];

  const report = await lookAt(fresh, { url: url.href });

  expect(of(report, "drift")).toMatchObject([
    { level: "note", title: 'The check "drift" failed', fix: expect.stringContaining("owner") },
  ]);
  expect(of(report, "server")).toMatchObject([{ level: "note", fix: expect.stringContaining("pg_monitor") }]);
  expect(report.counts.error).toBe(0);
  expect(report.checks.map((one) => one.check)).toContain("lease");
  const admin = await adminClient(fresh.url);
  await admin.query(`drop owned by "${role}"`);
  await admin.query(`drop role "${role}"`);
  await admin.end();
});
