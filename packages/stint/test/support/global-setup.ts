import { randomBytes } from "node:crypto";
import { readFileSync, statfsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { freemem, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Client } from "pg";
import type { TestProject } from "vitest/node";
import { startEmbedded, type Embedded, type EmbeddedOptions } from "#stint/embedded/embedded.js";
import { acceptPlainPasswords, hashQuickly } from "./cheap-logins.ts";

declare module "vitest" {
  export interface ProvidedContext {
    databaseUrl: string;
    /** The table of reusable installations, see shelf.ts. */
    shelf: string;
    /** The folder for servers of tests: in memory, if the machine has room there. */
    servers: string;
    /** The folder of the first test cluster, which later ones copy (own-server.ts). worker-process.ts builds its programs beside it. */
    cluster: string;
  }
}

/**
 * One Postgres for the whole run: the one in STINT_TEST_DATABASE_URL, else an embedded one; of another version if
 * STINT_TEST_POSTGRES names a folder with its package.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const run = randomBytes(8).toString("hex");
  const shelf = `stint_test_shelf_${run}`;
  const servers = inMemory() ?? tmpdir();
  const cluster = join(servers, `stint-test-cluster-${run}`);
  project.provide("shelf", shelf);
  project.provide("servers", servers);
  project.provide("cluster", cluster);
  const end = await startOrUse(project, shelf, servers);
  return async () => {
    await end();
    for (const path of [cluster, `${cluster}-programs`]) await rm(path, { recursive: true, force: true });
  };
}

/**
 * A folder in memory for the data of Postgres. Hundreds of schemas are made and dropped, of 300 files each, and finding a free
 * inode on a disk takes a tenth of the suite's CPU. Undefined if programs cannot run there: the binaries may have to be copied.
 */
function inMemory(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(memory);
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const isNoexec = mounts.some((line) => line.split(" ")[1] === memory && /\bnoexec\b/.test(line));
    return bavail * bsize > 6e9 && freemem() > 6e9 && !isNoexec ? memory : undefined;
  } catch {
    return undefined;
  }
}

const memory = "/dev/shm";

/** A temp folder of the library is removed even if this process is killed, so the server gets one, not a `dataDir`. */
async function startIn(folder: string, options: EmbeddedOptions): Promise<Embedded> {
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = folder;
  try {
    return await startEmbedded(options);
  } finally {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  }
}

async function startOrUse(
  project: TestProject,
  shelf: string,
  servers: string,
): Promise<() => Promise<void>> {
  const given = process.env["STINT_TEST_DATABASE_URL"];
  if (given !== undefined && given !== "") {
    project.provide("databaseUrl", given);
    await withClient(
      given,
      async (client) => await client.query(`create table ${shelf} (schema text, fingerprint text)`),
    );
    return async () => await withClient(given, async (client) => await clear(client, shelf));
  }

  const packageDir = process.env["STINT_TEST_POSTGRES"];
  const server = await startIn(servers, {
    settings: testSettings,
    ...(packageDir === undefined ? {} : { packageDir: resolve(packageDir) }),
  });
  project.provide("databaseUrl", server.url);
  await withClient(server.url, async (client) => {
    await client.query(`create table ${shelf} (schema text, fingerprint text)`);
    await hashQuickly(client, server.url);
    await acceptPlainPasswords(client);
  });
  return async () => server.stop("immediate");
}

const testSettings = {
  // The data is discarded, so waiting for the disk would only slow the suite.
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  wal_level: "minimal",
  max_wal_senders: "0",
  // In memory, so not too much of it.
  max_wal_size: "1GB",
  wal_init_zero: "off",
  checkpoint_timeout: "1h",
  // An analysed schema is no longer like a new one, and would not be used again. Tests vacuum what they need vacuumed.
  autovacuum_naptime: "1d",
  max_connections: "300",
  shared_buffers: "256MB",
  // Errors that tests provoke on purpose would fill the log.
  log_min_messages: "fatal",
  log_checkpoints: "off",
};

/** A server that the suite did not start is left unchanged. */
async function clear(client: Client, shelf: string): Promise<void> {
  const { rows } = await client.query<{ schema: string }>(`select schema from ${shelf}`);
  for (const { schema } of rows) await client.query(`drop schema "${schema}" cascade`);
  await client.query(`drop table ${shelf}`);
}

async function withClient(url: string, work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
