import { rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ensureDatabase } from "#stint/embedded/connection.js";
import { startEmbedded } from "#stint/embedded/embedded.js";
import { isAlive } from "#stint/embedded/processes.js";
import { adminClient, query } from "../support/database.ts";
import { holdEmbedded } from "../support/embedded-holder.ts";
import { inLab } from "../support/lab.ts";
import { openFolder } from "../support/folder.ts";

const settings = { fsync: "off" };

let dataDir: string;

beforeAll(async () => {
  dataDir = join(await openFolder(), "server");
});

afterAll(async () => rm(dirname(dataDir), { recursive: true, force: true }));

test.runIf(inLab)(
  "two processes that start on one new folder at the same moment share one server",
  async () => {
    const holders = [holdEmbedded({ dataDir, settings }), holdEmbedded({ dataDir, settings })];

    const servers = await Promise.all(holders.map(async (holder) => holder.reported("started")));

    expect(servers[0]!.url).toBe(servers[1]!.url);
    expect(servers.filter(({ joined }) => joined)).toHaveLength(1);
    const owner = holders[servers.findIndex(({ joined }) => !joined)]!;
    owner.process.kill("SIGTERM");
    await owner.reported("stopped");
    expect(isAlive(servers[0]!.pid)).toBe(false);
  },
);

test("starts at the same moment may all set up the database", async () => {
  const owner = await startEmbedded({ dataDir, settings });
  const { port, password } = new URL(owner.url);
  const cluster = { folder: join(dataDir, "cluster"), password };
  for (let round = 0; round < (inLab ? 20 : 5); round++) {
    await query("alter database stint reset search_path", [], owner.url);
    await Promise.all([1, 2, 3, 4].map(async () => await ensureDatabase(cluster, Number(port))));
  }

  const client = await adminClient(owner.url);
  const { rows } = await client.query("show search_path");
  await client.end();
  expect(rows).toEqual([{ search_path: 'public, "$user"' }]);
  await owner.stop();
});

test("a process that joined a server leaves it running; a refused one names its owner", async () => {
  const owner = await startEmbedded({ dataDir, settings });

  const guest = await startEmbedded({ dataDir, port: 1, settings });
  await guest.stop();

  expect(guest).toMatchObject({ joined: true, url: owner.url, pid: owner.pid });
  expect(await query("select 1 as one", [], owner.url)).toEqual([{ one: 1 }]);

  // One that cannot be joined is named by its pid.
  await writeFile(join(dataDir, "cluster", "stint_password"), "another");

  await expect(startEmbedded({ dataDir, settings })).rejects.toThrow(
    `Postgres ${owner.pid} already runs on ${dataDir} and cannot be joined`,
  );
  await owner.stop();
});
