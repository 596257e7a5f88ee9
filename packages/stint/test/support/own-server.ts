import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";
import { migrate } from "#stint/db/migrate.js";
import { startEmbedded, type Embedded } from "#stint/embedded/embedded.js";
import { adminClient, freshSchemaName, query } from "./database.ts";
import { openFolder } from "./folder.ts";
import { hashQuickly } from "./cheap-logins.ts";
import { untilEnded } from "./processes.ts";
import { until } from "./until.ts";

/** A Postgres for one test, which can be stopped, killed and started again. Port, data and URL stay the same. */
export type OwnServer = {
  url: string;
  port: number;
  dataDir: string;
  /** Process id of the running server. */
  pid(): number;
  start(): Promise<void>;
  stop(mode?: "fast" | "immediate"): Promise<void>;
  /** Kills the server like the kernel's out-of-memory killer, and waits until it has ended. */
  kill9(): Promise<void>;
  /** Ends all connections whose application_name begins with this, and returns their number. */
  terminateConnections(applicationName: string): Promise<number>;
  /** Stops the server and removes its data. */
  remove(): Promise<void>;
};

export async function ownServer(settings: Record<string, string> = {}): Promise<OwnServer> {
  const dataDir = join(await openFolder(inject("servers")), "server");
  await copyCluster(dataDir);
  const options = { dataDir, settings: { fsync: "off", ...settings } };
  let server: Embedded | undefined = await startEmbedded(options);
  const { url, port } = server;

  return {
    url,
    port,
    dataDir,
    pid: () => running(server).pid,
    async start() {
      server = await startEmbedded({ ...options, port });
      if (server.port !== port) throw new Error(`Port ${port} was taken while the server was down`);
    },
    async stop(mode = "fast") {
      await running(server).stop(mode);
      server = undefined;
    },
    async kill9() {
      const killed = running(server);
      process.kill(killed.pid, "SIGKILL");
      await untilEnded(killed.pid);
      await killed.stop();
      server = undefined;
    },
    async terminateConnections(applicationName) {
      const ended = await query(
        `select pg_terminate_backend(pid)
         from pg_stat_activity
         where starts_with(application_name, $1) and pid <> pg_backend_pid()`,
        [applicationName],
        url,
      );
      return ended.length;
    },
    async remove() {
      await server?.stop("immediate");
      server = undefined;
      await rm(join(dataDir, ".."), { recursive: true, force: true });
    },
  };
}

/** A new cluster, copied from the first one of this run: initdb takes ten times as long. */
export async function copyCluster(dataDir: string): Promise<void> {
  const first = inject("cluster");
  if (!existsSync(first)) await makeOnce(first);
  // Postgres runs as another user when the suite runs as root, and must own its files.
  await promisify(execFile)("cp", ["-a", first, dataDir]);
}

/** Several test files may want the first cluster at the same moment: one of them makes it. */
async function makeOnce(path: string): Promise<void> {
  const lock = `${path}.lock`;
  const isMine = await mkdir(lock).then(
    () => true,
    () => false,
  );
  if (!isMine) {
    // A file that failed to make it has removed its lock.
    await until(() => existsSync(path) || !existsSync(lock), { message: "another file makes the cluster" });
    return existsSync(path) ? undefined : await makeOnce(path);
  }
  try {
    if (!existsSync(path)) await makeCluster(path);
  } finally {
    await rm(lock, { recursive: true, force: true });
  }
}

/** How many new installations a cluster comes with: copying one takes a tenth of the CPU of making it. */
const readySchemas = 4;

async function makeCluster(path: string): Promise<void> {
  const folder = await openFolder(inject("servers"));
  const server = await startEmbedded({ dataDir: join(folder, "server"), settings: { fsync: "off" } });
  const client = await adminClient(server.url);
  await hashQuickly(client, server.url);
  for (let count = 0; count < readySchemas; count++) {
    const schema = freshSchemaName();
    await migrate({ connection: server.url, schema });
    await client.query(
      `do $$ begin execute format('comment on schema %I is %L', '${schema}', 'ready ' || current_date); end $$`,
    );
  }
  await client.end();
  await server.stop("fast");
  await rename(join(folder, "server"), path);
  await rm(folder, { recursive: true, force: true });
}

/** A new installation of a copied cluster, if there is one left. Those of yesterday lack the partition of the last day ahead. */
export async function takeReadySchema(url: string): Promise<string | undefined> {
  const [row] = await query<{ schema: string }>(
    `select nspname as schema from pg_namespace where obj_description(oid, 'pg_namespace') = 'ready ' || current_date limit 1`,
    [],
    url,
  );
  if (row !== undefined) await query(`comment on schema "${row.schema}" is null`, [], url);
  return row?.schema;
}

function running(server: Embedded | undefined): Embedded {
  if (server === undefined) throw new Error("The server is stopped; start it first");
  return server;
}
