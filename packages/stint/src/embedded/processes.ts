import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { spawnUser, type User } from "./user.ts";

const run = promisify(execFile);
const onLinux = process.platform === "linux";

export function isAlive(pid: number): boolean {
  return isTaken(pid) && !isZombie(pid);
}

/** Whether a process with this id exists, alive or as a zombie. */
export function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** In a container whose init process does not reap children, dead processes stay as zombies, which still accept signals. */
function isZombie(pid: number): boolean {
  if (!onLinux) return false;
  try {
    return /\) Z [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** Returns false if the process still exists after `deadlineMs`. */
export async function untilGone(pid: number, deadlineMs = Infinity): Promise<boolean> {
  const end = Date.now() + deadlineMs;
  while (isAlive(pid)) {
    if (Date.now() > end) return false;
    await sleep(25);
  }
  return true;
}

/** Send a signal to a process that may have ended already. */
export function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** The command line of a process: empty if it has ended, undefined if it cannot be read. */
export async function commandOf(pid: number): Promise<string | undefined> {
  try {
    if (onLinux) return (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ");
    return (await run("ps", ["-ww", "-o", "command=", "-p", `${pid}`])).stdout;
  } catch {
    return isAlive(pid) ? undefined : "";
  }
}

export async function parentOf(pid: number): Promise<number | undefined> {
  try {
    const text = onLinux
      ? /^PPid:\s*(\d+)/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]
      : (await run("ps", ["-o", "ppid=", "-p", `${pid}`])).stdout;
    return Number(text);
  } catch {
    return undefined;
  }
}

/**
 * Processes of `user` whose working folder is `folder`, such as all processes of a Postgres. Linux only.
 *
 * Read by a shell that runs as that user: a container's root may not read the working folder of another user's process.
 */
export async function processesIn(folder: string, user: User | undefined): Promise<number[]> {
  if (!onLinux) return [];
  const script = `for entry in /proc/[0-9]*; do [ "$entry/cwd" -ef "$1" ] && echo "\${entry#/proc/}"; done; exit 0`;
  const { stdout } = await run("/bin/sh", ["-c", script, "sh", folder], { cwd: "/", ...spawnUser(user) });
  return stdout.trim().split("\n").filter(Boolean).map(Number);
}
