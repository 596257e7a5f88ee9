import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startEmbedded, type Embedded } from "#stint/embedded/embedded.js";
import { migrate } from "#stint/db/migrate.js";
import { examine } from "#stint/doctor/doctor.js";
import { adminClient } from "../support/database.ts";
import { testFolder } from "../support/folder.ts";
import { copyCluster } from "../support/own-server.ts";
import { inLab } from "../support/lab.ts";

/** The data of a server that `startEmbedded` has made and stopped. */
async function madeBefore(): Promise<string> {
  const dataDir = join(await testFolder(), "server");
  await copyCluster(dataDir);
  return dataDir;
}

async function start(dataDir: string): Promise<Embedded> {
  const server = await startEmbedded({ dataDir, settings: { fsync: "off" } });
  onTestFinished(async () => await server.stop("immediate"));
  return server;
}

async function on(url: string, ...statements: readonly string[]): Promise<Record<string, unknown>[]> {
  const client = await adminClient(url);
  try {
    let rows: Record<string, unknown>[] = [];
    for (const text of statements) ({ rows } = await client.query(text));
    return rows;
  } finally {
    await client.end();
  }
}

const whereIs = (table: string): string =>
  `select schemaname as schema from pg_tables where tablename = '${table}'`;

async function namesakes(connection: string): Promise<string[]> {
  const report = await examine({
    connection,
    schema: "stint",
    kinds: async () => await Promise.resolve([]),
    patienceMs: 60_000,
    uses: { prepare: undefined, notify: undefined },
  });
  return report.checks
    .flatMap(({ findings }) => findings)
    .map(({ title }) => title)
    .filter((title) => title.includes("name of Stint's schema"));
}

test.runIf(inLab)("tables of an application go into public, and Stint's stay in its schema", async () => {
  const { url } = await start(join(await testFolder(), "server"));
  await migrate({ connection: url });

  expect(await on(url, "create table invoice (id integer)", whereIs("invoice"))).toEqual([
    { schema: "public" },
  ]);
  expect(await namesakes(url)).toEqual([]);
});

test("the search path is set on data of an older release, whose tables are found", async () => {
  const dataDir = await madeBefore();
  const older = await startEmbedded({ dataDir, settings: { fsync: "off" } });
  await migrate({ connection: older.url });
  await on(older.url, "alter database stint reset search_path");
  await on(older.url, "create table invoice (id integer)", "insert into invoice values (7)");
  expect(await on(older.url, whereIs("invoice"))).toEqual([{ schema: "stint" }]);
  expect(await namesakes(older.url)).toEqual(["A role has the name of Stint's schema"]);
  await older.stop("fast");

  const { url } = await start(dataDir);

  expect(await on(url, "select id from invoice")).toEqual([{ id: 7 }]);
  expect(await on(url, "create table receipt (id integer)", whereIs("receipt"))).toEqual([
    { schema: "public" },
  ]);
  expect(await namesakes(url)).toEqual([]);
});

test.runIf(inLab)("a search_path set by the user is kept", async () => {
  const dataDir = await madeBefore();
  const first = await startEmbedded({ dataDir, settings: { fsync: "off" } });
  await on(first.url, "create schema app", "alter role stint set search_path = app");
  await first.stop("fast");

  expect(await on((await start(dataDir)).url, "show search_path")).toEqual([{ search_path: "app" }]);
});
