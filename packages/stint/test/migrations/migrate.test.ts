import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { migrate, migrationSql, migrationStatus, readMigrations } from "#stint/db/migrate.js";
import { forSchema } from "#stint/db/statement.js";
import { DatabaseUnavailableError } from "#stint/errors.js";
import { adminClient, freshSchemaName, query, testDatabaseUrl } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { catalogOf } from "./catalog.ts";

/** A schema name that is free, and is gone when the test ends. */
function schemaName(name = freshSchemaName()): string {
  onTestFinished(async () => {
    await query(`drop schema if exists "${name}" cascade`);
  });
  return name;
}

type Waiting = { pid: number; since: string };

/** A step of the migration stops in its middle, at the table of kinds, until this transaction ends. */
async function blockKinds(
  schema: string,
): Promise<{ release(): Promise<void>; waiting(): Promise<Waiting | undefined> }> {
  await query(`create schema "${schema}"`);
  const client = await adminClient();
  await client.query(`begin; create table "${schema}".kind ()`);
  const { rows } = await client.query<{ pid: number }>(`select pg_backend_pid() as pid`);
  return {
    async release() {
      await client.query("rollback");
      await client.end();
    },
    async waiting() {
      const [found] = await query<Waiting>(
        `select pid, xact_start::text as since from pg_stat_activity where $1 = any (pg_blocking_pids(pid))`,
        [rows[0]?.pid],
      );
      return found;
    },
  };
}

test("a fresh migration applies every step once and returns their names", async () => {
  const schema = schemaName();
  const seen: number[] = [];
  const all = readMigrations().map((step) => step.version);
  const before = await migrationStatus({ connection: testDatabaseUrl(), schema });

  const first = await migrate({
    connection: testDatabaseUrl(),
    schema,
    onStep: (step) => seen.push(step.version),
  });
  const second = await migrate({ connection: testDatabaseUrl(), schema });
  const after = await migrationStatus({ connection: testDatabaseUrl(), schema });

  expect(first.map((step) => step.version)).toEqual(all);
  expect(seen).toEqual(all);
  expect(second).toEqual([]);
  expect(before.map((step) => step.appliedAt)).toEqual(all.map(() => null));
  expect(after.every((step) => step.appliedAt instanceof Date)).toBe(true);
});

test("steps are numbered without a gap, and each declares the code it supports", async () => {
  const steps = readMigrations();

  expect(steps.map((step) => step.version)).toEqual(steps.map((_, index) => index + 1));
  expect(steps.every((step) => step.oldestCode >= 1 && step.oldestCode <= step.version)).toBe(true);
});

test("concurrent migrations apply each step once, and none fails", async () => {
  const schema = schemaName();

  const runs = await Promise.all(
    Array.from({ length: 4 }, async () => await migrate({ connection: testDatabaseUrl(), schema })),
  );

  const all = readMigrations().map((step) => step.version);
  // Who applied which is chance; that each was applied once is not.
  const applied = runs.flat().map((step) => step.version);
  expect(applied.sort((a, b) => a - b)).toEqual(all);
});

test("a migration killed within a step leaves nothing of it, and the next one finishes", async () => {
  const schema = schemaName();
  const kinds = await blockKinds(schema);

  const failing = migrate({ connection: testDatabaseUrl(), schema }).catch((error: unknown) => error);
  const waiting = await until(() => kinds.waiting(), { message: "the step is stopped in its middle" });
  await query(`select pg_terminate_backend($1)`, [waiting?.pid]);
  const error = await failing;
  await kinds.release();
  const left = await query(
    `select relname from pg_class where relnamespace = $1::regnamespace and relkind = 'r'`,
    [schema],
  );
  const resumed = await migrate({ connection: testDatabaseUrl(), schema });

  expect(error).toMatchObject({ code: "57P01" });
  expect(left).toEqual([{ relname: "migration" }]);
  expect(resumed).toHaveLength(readMigrations().length);
});

test("a step that waits too long for a lock releases its queue place and tries again", async () => {
  const schema = schemaName();
  const kinds = await blockKinds(schema);

  const migrating = migrate({ connection: testDatabaseUrl(), schema });
  const first = await until(() => kinds.waiting(), { message: "the step waits" });
  await until(async () => ((await kinds.waiting())?.since ?? first?.since) !== first?.since, {
    message: "the step waits again, in another transaction",
  });
  await kinds.release();

  expect(await migrating).toHaveLength(readMigrations().length);
});

test("the printed SQL, run by another tool, makes the same schema", async () => {
  const [ours, theirs] = [schemaName(), schemaName()];
  await migrate({ connection: testDatabaseUrl(), schema: ours });
  const client = await adminClient();

  await client.query(await migrationSql(theirs));
  await client.end();

  expect(await catalogOf(theirs)).toEqual(await catalogOf(ours));
  const versions = `select version, name, oldest_code, checksum from stint.migration order by version`;
  expect(await query(forSchema(versions, theirs))).toEqual(await query(forSchema(versions, ours)));
  expect(await migrate({ connection: testDatabaseUrl(), schema: theirs })).toEqual([]);
});

test("the printed SQL since the last step has no steps", async () => {
  const last = readMigrations().length;

  const text = await migrationSql("stint", last);

  expect(text).not.toContain("insert into");
});

test("migrations create no object, extension or setting outside the schema", async () => {
  const name = `stint_test_${randomBytes(6).toString("hex")}`;
  await query(`create database "${name}"`);
  onTestFinished(async () => {
    await query(`drop database if exists "${name}" with (force)`);
  });
  const url = new URL(testDatabaseUrl());
  url.pathname = `/${name}`;
  const everything = `
    select 'relation ' || c.relname as thing from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname not in ('pg_toast', 'only_here') and c.oid >= 16384
    union all select 'function ' || proname from pg_proc p where pronamespace::regnamespace::text <> 'only_here' and oid >= 16384
    union all select 'type ' || typname from pg_type where typnamespace::regnamespace::text not in ('only_here', 'pg_toast') and oid >= 16384
    union all select 'schema ' || nspname from pg_namespace where oid >= 16384 and nspname <> 'only_here'
    union all select 'extension ' || extname from pg_extension
    union all select 'event trigger ' || evtname from pg_event_trigger
    union all select 'setting ' || setdatabase from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())
    order by 1`;
  const before = await query(everything, [], url.href);

  await migrate({ connection: url.href, schema: "only_here" });

  expect(await query(everything, [], url.href)).toEqual(before);
});

test("functions are revoked from everyone by their own step, whatever the defaults", async () => {
  const schema = schemaName();
  await query(`create schema "${schema}"`);
  await query(`alter default privileges in schema "${schema}" grant execute on functions to public`);

  await migrate({ connection: testDatabaseUrl(), schema });

  const [found] = await query<{ open: number; steps: number }>(
    `select
       count(*) filter (where exists (select from aclexplode(proacl) a where a.grantee = 0))::integer as open,
       count(distinct xmin::text)::integer as steps
     from pg_proc
     where pronamespace = $1::text::regnamespace`,
    [`"${schema}"`],
  );
  expect(found?.open).toBe(0);
  // A later step that wrote all functions again would leave one version of one transaction.
  expect(found?.steps).toBeGreaterThan(30);
});

test("storage parameters suit a table that is rewritten constantly", async () => {
  const { schema } = await freshSchema();

  const rows = await query<{ relname: string; reloptions: string[] }>(
    `select relname, reloptions from pg_class where relnamespace = $1::regnamespace and relname in ('job', 'worker') order by 1`,
    [schema],
  );

  expect(rows[0]?.reloptions).toEqual(
    expect.arrayContaining([
      "autovacuum_vacuum_scale_factor=0",
      "autovacuum_vacuum_threshold=2000",
      "autovacuum_analyze_scale_factor=0",
      "autovacuum_vacuum_cost_delay=0",
      "vacuum_truncate=false",
    ]),
  );
  expect(rows[1]?.reloptions).toContain("fillfactor=50");
});

test("an unreachable database is reported without the password", async () => {
  const attempt = migrate({ connection: "postgres://me:secret@127.0.0.1:1/none", schema: "stint" });

  await expect(attempt).rejects.toBeInstanceOf(DatabaseUnavailableError);
  await expect(attempt).rejects.toThrow(/^(?!.*secret).*could not connect/);
});
