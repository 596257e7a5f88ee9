import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbedded, type Embedded } from "#stint/embedded/embedded.js";
import { query } from "../support/database.ts";
import { inLab } from "../support/lab.ts";
import { untilEnded } from "../support/processes.ts";

let server: Embedded;

beforeAll(async () => {
  server = await startEmbedded({ settings: { fsync: "off", work_mem: "5MB" } });
});

afterAll(async () => server.stop());

async function setting(name: string): Promise<string | undefined> {
  const rows = await query<{ value: string }>("select current_setting($1) as value", [name], server.url);
  return rows[0]?.value;
}

test("the server uses UTF-8, the C collation and UTC", async () => {
  expect(await setting("server_encoding")).toBe("UTF8");
  expect(await setting("timezone")).toBe("UTC");
  const rows = await query("select datcollate from pg_database where datname = 'stint'", [], server.url);
  expect(rows).toEqual([{ datcollate: "C" }]);
});

test("the server listens on the loopback address only", async () => {
  expect(await setting("listen_addresses")).toBe("127.0.0.1");
  expect(await setting("unix_socket_directories")).toBe("");
});

test("the server requires its password", async () => {
  const url = new URL(server.url);
  url.password = "guessed";

  await expect(query("select 1", [], url.href)).rejects.toThrow("password authentication failed");
});

test("settings of the caller apply", async () => {
  expect(await setting("work_mem")).toBe("5MB");
});

test("settings needed to reach the server are refused", async () => {
  await expect(startEmbedded({ settings: { listen_addresses: "*" } })).rejects.toThrow(
    "settings.listen_addresses",
  );
  await expect(startEmbedded({ settings: { "x y": "1" } })).rejects.toThrow("settings.x y");
});

test("the server does not run as root, even under root", async () => {
  const { uid } = await stat(join(server.dataDir, "cluster", "postmaster.pid"));

  expect(uid).not.toBe(0);
});

test.runIf(inLab)("two servers use separate ports and data, and stop leaves nothing behind", async () => {
  const squatter = createServer();
  await new Promise<void>((resolve) => {
    squatter.listen(0, "127.0.0.1", resolve);
  });
  const { port } = squatter.address() as { port: number };

  const other = await startEmbedded({ port, settings: { fsync: "off" } });

  expect(other.port).not.toBe(port);
  expect(await query("select 1 as one", [], other.url)).toEqual([{ one: 1 }]);
  expect(other.dataDir).not.toBe(server.dataDir);
  await query("create table mine ()", [], other.url);
  await expect(query("select from mine", [], server.url)).rejects.toThrow('"mine" does not exist');

  await Promise.all([other.stop(), other.stop()]);

  await untilEnded(other.pid);
  expect(existsSync(other.dataDir)).toBe(false);
  squatter.close();
});
