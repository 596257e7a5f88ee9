import { expect, onTestFinished, test } from "vitest";
import { migrationStatus } from "#stint/db/migrate.js";
import { migrate, type MigrateOptions } from "#stint/dev.js";
import { freshSchemaName, query, testDatabaseUrl } from "../support/database.ts";
import { jsonOf, project, stint, type Ended } from "./support.ts";

function emptySchema(): { schema: string; run: (...args: string[]) => Promise<Ended> } {
  const schema = freshSchemaName();
  onTestFinished(async () => {
    await query(`drop schema if exists "${schema}" cascade`);
  });
  const env = { DATABASE_URL: testDatabaseUrl() };
  return { schema, run: async (...args) => await stint([...args, "--schema", schema], { env }) };
}

test("migrate installs a schema, and a second run changes nothing", async () => {
  const { schema, run } = emptySchema();

  expect((await run("migrate", "--dry-run")).stdout).toContain("Would apply 1 foundation");
  expect(await run("migrate", "--status")).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/1 +foundation +not yet/),
    stderr: expect.stringContaining(`npx stint migrate --schema ${schema}`),
  });
  expect(await query(`select from pg_namespace where nspname = $1`, [schema])).toEqual([]);

  expect(await run("migrate")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${schema} is up to date: `),
  });
  expect(await run("migrate")).toMatchObject({ code: 0, stdout: `Schema ${schema} is up to date.\n` });
  expect(await run("migrate", "--status")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/1 +foundation +\S+ m?s ago/),
  });
});

test("migrate --json prints what it did, would do and found done", async () => {
  const { schema, run } = emptySchema();

  const would = jsonOf(await run("migrate", "--dry-run", "--json")) as { wouldApply: object[] };
  const did = jsonOf(await run("migrate", "--json")) as { applied: object[] };
  const found = jsonOf(await run("migrate", "--status", "--json"));

  expect(would.wouldApply[0]).toMatchObject({ version: 1, name: "foundation" });
  expect(did).toMatchObject({
    schema,
    applied: would.wouldApply.map((step) => ({ version: (step as { version: number }).version })),
  });
  expect(found).toMatchObject({ schema, pending: 0, steps: { length: did.applied.length } });
  expect(found).toHaveProperty("steps[0].appliedAt", expect.any(String));
});

test("migrate --sql needs no database and prints SQL that installs the schema", async () => {
  const { schema, run } = emptySchema();

  const printed = await stint(["migrate", "--sql", "--schema", schema]);
  await query(printed.stdout);

  expect(printed.code).toBe(0);
  expect((await run("migrate")).stdout).toBe(`Schema ${schema} is up to date.\n`);
  expect((await stint(["migrate", "--sql", "--since", "1"])).stdout).not.toContain("create type");
  expect(await stint(["migrate", "--sql", "--since", "999"])).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("--since: must be from 0 to"),
  });
});

test("migrate options that exclude each other are wrong usage", async () => {
  expect((await stint(["migrate", "--sql", "--status"])).code).toBe(2);
  expect((await stint(["migrate", "--since", "1"])).code).toBe(2);
});

test("grants prints a script for the schema and role, without a database", async () => {
  const text = await stint(["grants", "enqueue", "--role", "web app", "--schema", "billing"]);
  const json = await stint(["grants", "read", "--role", "metrics", "--json"]);

  expect(text).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`grant usage on schema "billing" to "web app";`),
  });
  expect(jsonOf(json)).toMatchObject({
    rights: "read",
    role: "metrics",
    schema: "stint",
    sql: expect.stringContaining("grant select"),
  });
});

test("grants for the owner names the database of the URL or of dev, or requires it", async () => {
  const env = { DATABASE_URL: "postgres://app:secret@db.internal/shop" };

  expect((await stint(["grants", "owner", "--role", "app"], { env })).stdout).toContain(
    `on database "shop" to "app"`,
  );
  const folder = await project({ ".stint/url": "postgres://me@127.0.0.1:1/of_dev\n" });
  expect((await stint(["grants", "owner", "--role", "app"], { cwd: folder })).stdout).toContain(
    `on database "of_dev" to "app"`,
  );
  expect(await stint(["grants", "owner", "--role", "app"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--database"),
  });
  expect((await stint(["grants", "king", "--role", "app"])).stderr).toContain("owner, worker, enqueue, read");
});

test("migrate() from code needs an explicit connection, and checks its options", async () => {
  const { schema } = emptySchema();
  const refused = [
    [{}, "migrate.connection: must be a connection string"],
    [{ connection: "" }, "migrate.connection: must be"],
    [{ connection: "localhost/app" }, "migrate.connection: must be"],
    [{ connection: new URL(testDatabaseUrl()) }, "migrate.connection: must be"],
    [{ connection: { hots: "db" } }, 'did you mean "host"?'],
    [{ connection: testDatabaseUrl(), schma: schema }, 'did you mean "schema"?'],
    [{ connection: testDatabaseUrl(), schema: "No Schema" }, "migrate.schema: must be"],
  ] as const;

  for (const [options, message] of refused) {
    await expect(migrate(options as unknown as MigrateOptions)).rejects.toThrow(message);
  }
  await expect(
    migrationStatus({ connection: testDatabaseUrl(), schema, dry: true } as object as MigrateOptions),
  ).rejects.toThrow("migrationStatus.dry: is not an option");
});
