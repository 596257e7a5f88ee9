import { readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { guardianName } from "./guardian.ts";
import { commandOf, isAlive, isTaken, parentOf, processesIn, signalIfAlive, untilGone } from "./processes.ts";
import type { User } from "./user.ts";

/** The contents of `postmaster.pid` of a running Postgres. */
export type Postmaster = { pid: number; port: number; ready: boolean };

/** The server that runs on this cluster; undefined if none does. */
export async function findPostmaster(folder: string): Promise<Postmaster | undefined> {
  const file = pidFile(folder);
  const text = await readFile(file, "utf8").catch(() => "");
  const found = parsePidFile(text);
  // The next server replaces the file of a dead one.
  if (found === undefined || !isTaken(found.pid)) return undefined;

  // Process ids are reused, above all in a container after a restart, so an existing process proves nothing. The command line of
  // a server names its cluster. (So does its working folder, but a container's root may not read that of another user.)
  const command = await commandOf(found.pid);
  if (command === undefined || command.includes(folder)) return found;

  // Postgres would mistake the unrelated process, or the zombie of the old server, for a server and refuse to start. Read the file
  // again first: another start may have replaced it.
  if ((await readFile(file, "utf8").catch(() => "")) === text) await unlink(file).catch(() => undefined);
  return undefined;
}

function pidFile(folder: string): string {
  return join(folder, "postmaster.pid");
}

function parsePidFile(text: string): Postmaster | undefined {
  const lines = text.split("\n").map((line) => line.trim());
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, port: Number(lines[3]), ready: lines[7] === "ready" };
}

/** Resolves with server `pid` once it accepts connections, or with undefined if it ends or the deadline passes. */
export async function untilReady(
  folder: string,
  pid: number,
  deadlineMs: number,
): Promise<Postmaster | undefined> {
  const end = Date.now() + deadlineMs;
  while (isAlive(pid) && Date.now() < end) {
    const found = parsePidFile(await readFile(pidFile(folder), "utf8").catch(() => ""));
    if (found?.pid === pid && found.ready) return found;
    await sleep(20);
  }
  return undefined;
}

/** Whether the server has a live guardian that will end it. */
export async function isGuarded(pid: number): Promise<boolean> {
  const parent = await parentOf(pid);
  return parent !== undefined && ((await commandOf(parent))?.includes(guardianName) ?? false);
}

export type StopMode = "fast" | "immediate";

/** Both modes disconnect all clients. "immediate" writes no checkpoint, so the next start recovers as after a crash. */
export async function stopPostmaster(pid: number, mode: StopMode): Promise<void> {
  signalIfAlive(pid, mode === "fast" ? "SIGINT" : "SIGQUIT");
  if (await untilGone(pid, 30_000)) return;
  signalIfAlive(pid, "SIGQUIT");
  if (await untilGone(pid, 10_000)) return;
  signalIfAlive(pid, "SIGKILL");
  await untilGone(pid, 5_000);
}

/**
 * End the backends of a killed server. A backend that executes a query does not notice that its server is gone, and no new server
 * starts before it has ended.
 */
export async function endLeftBackends(folder: string, user: User | undefined): Promise<void> {
  const pids = await processesIn(folder, user);
  for (const pid of pids) {
    const parent = await parentOf(pid);
    // The process is a live server or its child: another start has made a new server.
    if (parent === undefined || pids.includes(parent) || (await isGuarded(pid))) continue;
    signalIfAlive(pid, "SIGKILL");
  }
}
