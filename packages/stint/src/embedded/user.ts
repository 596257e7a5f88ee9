import { chown, lchown, lstat, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

/** The unprivileged user for Postgres if this process is root: Postgres refuses to run as root. */
export type User = { uid: number; gid: number };

const nobody: User = { uid: 65534, gid: 65534 };

/** The user to run Postgres as; undefined: the user of this process. An existing cluster is run by its owner. */
export async function chooseUser(clusterFolder: string | undefined): Promise<User | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = clusterFolder === undefined ? undefined : await stat(clusterFolder).catch(() => undefined);
  return owner === undefined || owner.uid === 0 ? nobody : { uid: owner.uid, gid: owner.gid };
}

export function spawnUser(user: User | undefined): Partial<User> {
  return user ?? {};
}

/** Whether `user` can access `folder`: every parent folder must be accessible, too. */
export async function canReach(folder: string, user: User | undefined): Promise<boolean> {
  if (user === undefined) return true;
  let at = await realpath(folder);
  for (;;) {
    const { mode, uid, gid } = await stat(at);
    const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (at === dirname(at)) return true;
    at = dirname(at);
  }
}

export async function giveTo(path: string, user: User | undefined): Promise<void> {
  if (user !== undefined) await chown(path, user.uid, user.gid);
}

/** Make `user` the owner of a folder and its contents, so that the guardian can remove it. */
export async function chownTree(path: string, user: User | undefined): Promise<void> {
  if (user === undefined) return;
  await lchown(path, user.uid, user.gid);
  if (!(await lstat(path)).isDirectory()) return;
  const names = await readdir(path);
  await Promise.all(names.map(async (name) => chownTree(join(path, name), user)));
}
