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

/** Whether the number stands for any process, living or not yet collected. */
export function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: there is one, and it belongs to someone else.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** A container whose first process never collects the dead keeps them as zombies, which still take signals. */
function isZombie(pid: number): boolean {
  if (!onLinux) return false;
  try {
    return /\) Z [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** False when the process is still there after `deadlineMs`. */
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

/** The command line of a process: empty when it is gone, undefined when we may not know. */
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
 * Processes of `user` that work in `folder`, as all of a Postgres's do in its data folder. Linux only.
 *
 * Asked by a shell that runs as that user: a container's root may not see where another's process works.
 */
export async function processesIn(folder: string, user: User | undefined): Promise<number[]> {
  if (!onLinux) return [];
  const script = `for entry in /proc/[0-9]*; do [ "$entry/cwd" -ef "$1" ] && echo "\${entry#/proc/}"; done; exit 0`;
  const { stdout } = await run("/bin/sh", ["-c", script, "sh", folder], { cwd: "/", ...spawnUser(user) });
  return stdout.trim().split("\n").filter(Boolean).map(Number);
}
