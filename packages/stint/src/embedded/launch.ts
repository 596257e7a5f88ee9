import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Binaries } from "./binaries.ts";
import type { Cluster } from "./cluster.ts";
import { ensureDatabase } from "./connection.ts";
import { guard, type Guarded } from "./guardian.ts";
import type { DataDir } from "./data-dir.ts";
import { endLeftBackends, stopPostmaster, untilReady } from "./postmaster.ts";
import { lastWords } from "./server-log.ts";

export type Server = Guarded & { port: number };

export type Launch = {
  dataDir: DataDir;
  binaries: Binaries;
  cluster: Cluster;
  settings: readonly string[];
  port: number;
  onProgress: (line: string) => void;
};

export type Launched =
  | { started: true; server: Server }
  | { started: false; portRefused: boolean; mayPass: boolean; reason: string };

// Recovery after a crash replays the WAL since the last checkpoint, and may take long.
const readyDeadlineMs = 120_000;

/** Start Postgres on a cluster and wait until it accepts connections. */
export async function launch({
  dataDir,
  binaries,
  cluster,
  settings,
  port,
  onProgress,
}: Launch): Promise<Launched> {
  const log = join(dataDir.path, "server.log");
  // A new file instead of truncating the old one: backends of a killed server may still write to it, and their lines would look like
  // the reason why this server did not start.
  await rm(log, { force: true });
  const file = await open(log, "w", 0o600);
  const starting = guard(
    join(binaries.folder, "bin", "postgres"),
    [
      "-D",
      cluster.folder,
      ...["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories=", ...settings].flatMap(
        (setting) => ["-c", setting],
      ),
    ],
    {
      user: dataDir.user,
      log: file.fd,
      remove: dataDir.temporary ? dataDir.path : undefined,
      // A temporary cluster is never read again, so it needs no clean shutdown.
      signal: dataDir.temporary ? "QUIT" : "INT",
    },
  );
  const guarded = await starting.finally(() => void file.close());

  const slow = setTimeout(() => onProgress(`Postgres is recovering after an unclean end; see ${log}`), 3_000);
  const ready = await untilReady(cluster.folder, guarded.pid, readyDeadlineMs);
  clearTimeout(slow);
  try {
    if (ready === undefined) throw new Error(await lastWords(log));
    await ensureDatabase(cluster, port);
  } catch (error) {
    await stopPostmaster(guarded.pid, "immediate");
    guarded.release();
    const reason = (error as Error).message;
    if (backendsLeft.test(reason)) await endLeftBackends(cluster.folder, dataDir.user);
    const portRefused = portTrouble.test(reason);
    return { started: false, portRefused, mayPass: portRefused || passing.test(reason), reason };
  }

  guarded.hold(false);
  return { started: true, server: { ...guarded, port } };
}

const portTrouble = /could not create any TCP\/IP sockets/i;
const backendsLeft = /shared memory block .* in use/i;
const passing = /lock file|shared memory block .* in use/i;
