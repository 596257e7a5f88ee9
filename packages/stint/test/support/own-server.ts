import { execFile } from "node:child_process";
import { access, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";
import { startEmbedded, type Embedded } from "#stint/embedded/embedded.js";
import { adminClient, query } from "./database.ts";
import { openFolder } from "./folder.ts";
import { hashQuickly } from "./cheap-logins.ts";
import { untilEnded } from "./processes.ts";

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
  const dataDir = join(await openFolder(), "server");
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
  if (
    !(await access(first).then(
      () => true,
      () => false,
    ))
  )
    await makeCluster(first);
  // Postgres runs as another user when the suite runs as root, and must own its files.
  await promisify(execFile)("cp", ["-a", first, dataDir]);
}

async function makeCluster(path: string): Promise<void> {
  const folder = await openFolder();
  const server = await startEmbedded({ dataDir: join(folder, "server"), settings: { fsync: "off" } });
  const client = await adminClient(server.url);
  await hashQuickly(client, server.url);
  await client.end();
  await server.stop("fast");
  // Fails if another test file was quicker; its cluster is used.
  await rename(join(folder, "server"), path).catch(() => undefined);
  await rm(folder, { recursive: true, force: true });
}

function running(server: Embedded | undefined): Embedded {
  if (server === undefined) throw new Error("The server is stopped; start it first");
  return server;
}
