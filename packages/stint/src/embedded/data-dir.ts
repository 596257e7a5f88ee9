import { lstat, mkdir, mkdtemp, readdir, realpath, rm, rmdir, stat, symlink, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { InvalidOptionError } from "../errors.ts";
import { canReach, chooseUser, giveTo, type User } from "./user.ts";

/**
 * The folder of one embedded Postgres. In it: `cluster/` (the data), `server.log`, and a copy of the
 * binaries when the installed ones cannot be used in place.
 */
export type DataDir = { path: string; temporary: boolean; user: User | undefined };

export async function openDataDir(path: string | undefined): Promise<DataDir> {
  return path === undefined ? temporaryDataDir() : keptDataDir(resolve(path));
}

export async function removeDataDir(dataDir: DataDir): Promise<void> {
  if (dataDir.temporary) await rm(dataDir.path, { recursive: true, force: true, maxRetries: 5 });
}

async function temporaryDataDir(): Promise<DataDir> {
  const user = await chooseUser(undefined);
  const path = await mkdtemp(join(await reachableTmp(user), "stint-"));
  await giveTo(path, user);
  return { path, temporary: true, user };
}

async function keptDataDir(path: string): Promise<DataDir> {
  await removeDanglingLink(path);
  await refuseForeignFolder(path);
  const user = await chooseUser(join(path, "cluster"));

  await mkdir(dirname(path), { recursive: true });
  // Only the parent folders must be accessible to the user: the folder itself changes its owner below.
  if (!(await canReach(dirname(await realpath(path).catch(() => path)), user))) {
    await keepElsewhere(path, user);
  }
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  const real = await realpath(path);
  await giveTo(real, user);
  return { path: real, temporary: false, user };
}

const ours = /^(cluster|cluster\.new-.*|postgres-.*|server\.log|initdb\.log)$/;

/** The folder gets another owner and new files, so it must not contain anything else, such as a project. */
async function refuseForeignFolder(path: string): Promise<void> {
  const names = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new InvalidOptionError(
      "dataDir",
      `${path} cannot be read as a folder (${error.code}). Choose another.`,
    );
  });
  const foreign = names.find((name) => !ours.test(name));
  if (foreign === undefined) return;
  throw new InvalidOptionError(
    "dataDir",
    `${path} holds other things than an embedded Postgres (${foreign}). Choose a folder that is new or empty.`,
  );
}

/**
 * The process is root, and the project is in a folder closed to other users, such as /root. The data is then kept
 * under /var/lib/stint, and `path` links to it. Removing the link still starts with an empty cluster.
 */
async function keepElsewhere(path: string, user: User | undefined): Promise<void> {
  const names = await readdir(path).catch(() => []);
  if (names.length > 0) {
    throw new InvalidOptionError(
      "dataDir",
      `uid ${user?.uid}, as whom Postgres must run since we are root, cannot reach ${path}. ` +
        `Open the folders above it to that user, or move it away to start afresh.`,
    );
  }
  await rmdir(path).catch(() => undefined);

  const shelf = await mkdir("/var/lib/stint", { recursive: true, mode: 0o755 }).then(
    () => "/var/lib/stint",
    () => reachableTmp(user),
  );
  const elsewhere = await mkdtemp(join(shelf, `${basename(path)}-`));
  await symlink(elsewhere, path).catch(async (error: NodeJS.ErrnoException) => {
    // A concurrent start in the same folder made its link first; use that one.
    if (error.code !== "EEXIST") throw error;
    await rmdir(elsewhere);
  });
}

/** The target of a link may be gone, for example a temp folder after a reboot. Remove the dangling link. */
async function removeDanglingLink(path: string): Promise<void> {
  const isLink = (await lstat(path).catch(() => undefined))?.isSymbolicLink() ?? false;
  if (isLink && (await stat(path).catch(() => undefined)) === undefined) await unlink(path);
}

async function reachableTmp(user: User | undefined): Promise<string> {
  for (const folder of [tmpdir(), "/tmp", "/var/tmp"]) {
    if (await canReach(folder, user).catch(() => false)) return folder;
  }
  throw new InvalidOptionError(
    "TMPDIR",
    `no temp folder can be reached by uid ${user?.uid}. Set TMPDIR to one that can.`,
  );
}
