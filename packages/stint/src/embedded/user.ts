import { chown, lchown, lstat, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

/** The unprivileged user Postgres runs as when we are root, as whom it refuses to run. */
export type User = { uid: number; gid: number };

const nobody: User = { uid: 65534, gid: 65534 };

/** Whom to run as: `undefined` is ourselves. A cluster that exists is run by the user who owns it. */
export async function chooseUser(clusterFolder: string | undefined): Promise<User | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = clusterFolder === undefined ? undefined : await stat(clusterFolder).catch(() => undefined);
  return owner === undefined || owner.uid === 0 ? nobody : { uid: owner.uid, gid: owner.gid };
}

export function spawnUser(user: User | undefined): Partial<User> {
  return user ?? {};
}

/** Whether `user` may walk down to `folder`: one ancestor closed to it makes everything below unreachable. */
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

/** Give a folder and everything in it to `user`, so that the guardian can remove it too. */
export async function chownTree(path: string, user: User | undefined): Promise<void> {
  if (user === undefined) return;
  await lchown(path, user.uid, user.gid);
  if (!(await lstat(path)).isDirectory()) return;
  const names = await readdir(path);
  await Promise.all(names.map(async (name) => chownTree(join(path, name), user)));
}
