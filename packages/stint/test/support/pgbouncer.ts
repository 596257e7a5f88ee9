import { spawn, spawnSync } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { choosePort } from "#stint/embedded/port.js";
import { chooseUser, spawnUser } from "#stint/embedded/user.js";
import { adminClient, testDatabaseUrl } from "./database.ts";
import { testFolder } from "./folder.ts";
import { until } from "./until.ts";

/** Debian installs PgBouncer in a folder that is only in root's PATH. */
const env = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin` };

/** Tests with a real PgBouncer are skipped where it is not installed. */
export const hasPgBouncer = spawnSync("pgbouncer", ["--version"], { env }).status === 0;
if (!hasPgBouncer)
  process.stderr.write(
    "pgbouncer is not installed: the tests that need it are skipped (apt install pgbouncer)\n",
  );

export type PgBouncerOptions = {
  mode?: "transaction" | "session";
  /** The number of server connections that all clients share. */
  poolSize?: number;
  /** The server behind it. */
  url?: string;
};

/** A real PgBouncer in front of a server, on 127.0.0.1 only, ended with the test. Returns the URL to connect to. */
export async function pgBouncer({
  mode = "transaction",
  poolSize = 4,
  url = testDatabaseUrl(),
}: PgBouncerOptions = {}): Promise<string> {
  const server = new URL(url);
  const folder = await testFolder();
  const port = await choosePort(undefined);
  const settings = join(folder, "pgbouncer.ini");
  const target = [
    `host=${server.hostname}`,
    `port=${server.port}`,
    `user=${decodeURIComponent(server.username)}`,
    `password=${decodeURIComponent(server.password)}`,
  ].join(" ");
  await writeFile(
    settings,
    `[databases]
* = ${target}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${poolSize}
max_client_conn = 500
log_connections = 0
log_disconnections = 0
`,
  );
  await chmod(settings, 0o644);
  // PgBouncer refuses to run as root.
  const child = spawn("pgbouncer", ["--quiet", settings], {
    env,
    cwd: folder,
    stdio: "ignore",
    ...spawnUser(await chooseUser(undefined)),
  });
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });

  const pooled = new URL(url);
  [pooled.hostname, pooled.port] = ["127.0.0.1", String(port)];
  await until(
    async () => {
      await (await adminClient(pooled.href)).end();
      return true;
    },
    { message: "PgBouncer takes connections" },
  );
  return pooled.href;
}
