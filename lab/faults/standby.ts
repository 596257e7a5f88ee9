import { execFile, spawn } from "node:child_process";
import { appendFile, chown, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { adminClient, query } from "../../packages/stint/test/support/database.ts";
import type { OwnServer } from "../../packages/stint/test/support/own-server.ts";
import { until } from "../../packages/stint/test/support/until.ts";

const run = promisify(execFile);

export type Standby = {
  readonly url: string;
  /** Resolves when the standby has replayed everything that the primary has written. */
  caughtUp(): Promise<void>;
  /** Make it a primary, and wait until it takes writes. */
  promote(): Promise<void>;
};

/** A streaming standby of a server, made from a copy of its running cluster. Ended with the test. */
export async function startStandby(primary: OwnServer): Promise<Standby> {
  const source = join(primary.dataDir, "cluster");
  const folder = join(primary.dataDir, "standby");
  const owner = await stat(source);
  const write = async (name: string, text: string): Promise<void> => {
    await writeFile(join(folder, name), text);
    await chown(join(folder, name), owner.uid, owner.gid);
  };
  const backup = await adminClient(primary.url);
  await backup.query("select pg_backup_start('standby', true)");
  // Files may change while they are copied; the WAL since the start of the backup repairs them.
  await run("cp", ["-a", source, folder]).catch(() => undefined);
  const { rows } = await backup.query<{ label: string }>("select labelfile as label from pg_backup_stop()");
  await backup.end();
  for (const name of ["postmaster.pid", "postmaster.opts"]) await rm(join(folder, name), { force: true });
  await write("backup_label", rows[0]?.label ?? "");
  await write("standby.signal", "");
  const { username, password } = new URL(primary.url);
  await appendFile(
    join(folder, "postgresql.auto.conf"),
    `primary_conninfo = 'host=127.0.0.1 port=${primary.port} user=${username} password=${password}'\n`,
  );

  const { stdout } = await run("ps", ["-o", "args=", "-p", String(primary.pid())]);
  const [program = "postgres"] = stdout.trim().split(" ");
  const port = await freePort();
  const settings = ["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories=", "fsync=off"];
  const child = spawn(program, ["-D", folder, ...settings.flatMap((setting) => ["-c", setting])], {
    stdio: "ignore",
    ...(process.getuid?.() === 0 ? { uid: owner.uid, gid: owner.gid } : {}),
  });
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  onTestFinished(async () => {
    child.kill("SIGQUIT");
    await ended;
  });

  const own = new URL(primary.url);
  own.port = String(port);
  const url = own.href;
  const isStandby = "select from pg_stat_wal_receiver where status = 'streaming'";
  await until(async () => (await query(isStandby, [], url)).length > 0, { message: "the standby streams" });
  return {
    url,
    async caughtUp() {
      const [row] = await query("select pg_current_wal_lsn()::text as lsn", [], primary.url);
      const replayed = "select where pg_last_wal_replay_lsn() >= $1::pg_lsn";
      await until(async () => (await query(replayed, [row?.["lsn"]], url)).length > 0, {
        message: "the standby has replayed everything",
      });
    },
    async promote() {
      await query("select pg_promote()", [], url);
      await until(async () => (await query("select where not pg_is_in_recovery()", [], url)).length > 0, {
        message: "the standby is a primary",
      });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}
