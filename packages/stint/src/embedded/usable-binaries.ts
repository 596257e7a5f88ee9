import { execFile } from "node:child_process";
import { chmod, cp, lstat, readFile, readdir, rename, rm, symlink } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { promisify } from "node:util";
import { unavailable, type Binaries } from "./binaries.ts";
import { chownTree, spawnUser, type User } from "./user.ts";

const run = promisify(execFile);

/**
 * Make the installed binaries runnable by `user`, in place if possible, else as a copy under `dataDir`.
 *
 * A copy is needed if the install is read-only and its library links are missing, or if `user` cannot access it (an install
 * under a root-only folder).
 */
export async function usableBinaries(
  found: Binaries,
  dataDir: string,
  user: User | undefined,
): Promise<Binaries> {
  await makeLinks(found.folder).catch(() => undefined);
  if ((await whyNotRunnable(found.folder, user)) === undefined) return found;

  const copy = join(dataDir, `postgres-${found.version}`);
  if ((await whyNotRunnable(copy, user)) !== undefined) await copyBinaries(found.folder, copy, user);
  const reason = await whyNotRunnable(copy, user);
  if (reason !== undefined) throw unavailable(`its programs do not run on this machine (${reason})`);
  return { folder: copy, version: found.version };
}

/** npm 11 does not run install scripts, so the links between library versions may never have been made. */
async function makeLinks(folder: string): Promise<void> {
  const text = await readFile(join(folder, "pg-symlinks.json"), "utf8").catch(() => "[]");

  for (const { source, target } of JSON.parse(text) as { source: string; target: string }[]) {
    // Both are written as native/lib/NAME, and a copy is not called native.
    const path = join(folder, relative("native", target));
    if (await lstat(path).catch(() => undefined)) continue;
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      // A concurrent start made the link.
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/** `--version` of both programs loads every shared library that the server and initdb need. */
async function whyNotRunnable(folder: string, user: User | undefined): Promise<string | undefined> {
  try {
    for (const program of ["postgres", "initdb"]) {
      await run(join(folder, "bin", program), ["--version"], { cwd: "/", env: {}, ...spawnUser(user) });
    }
    return undefined;
  } catch (error) {
    return (error as Error).message.trim().split("\n").at(-1);
  }
}

async function copyBinaries(from: string, copy: string, user: User | undefined): Promise<void> {
  // Copied under another name and renamed, so that an interrupted copy is never used.
  const aside = `${copy}.new-${process.pid}`;
  await rm(aside, { recursive: true, force: true });
  await cp(from, aside, { recursive: true, verbatimSymlinks: true });
  await openModes(aside);
  await makeLinks(aside);
  await chownTree(aside, user);
  await rm(copy, { recursive: true, force: true });
  await rename(aside, copy);
}

/** A read-only install copies as read-only folders, in which no link could be made and nothing be removed. */
async function openModes(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  const entries = await readdir(folder, { withFileTypes: true });
  await Promise.all(
    entries.map(async (entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await openModes(path);
      else if (entry.isFile()) await chmod(path, 0o755);
    }),
  );
}
