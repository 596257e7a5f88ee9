import { readFile } from "node:fs/promises";

const ticksPerSecond = 100;

/** Milliseconds of processor time that a process has used, all its threads together; 0 once it is gone. */
export async function cpuMsOf(pid: number): Promise<number> {
  return (await times(pid)).own;
}

/** The same of a server and its sessions, those that have ended meanwhile included. */
export async function cpuMsOfServer(pid: number): Promise<number> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const pids = children.split(" ").filter((child) => child !== "");
  const live = await Promise.all(pids.map((child) => cpuMsOf(Number(child))));
  const { own, ended } = await times(pid);
  return live.reduce((sum, ms) => sum + ms, own + ended);
}

async function times(pid: number): Promise<{ own: number; ended: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name in brackets may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ms = (field: number): number => (Number(fields[field] ?? 0) * 1000) / ticksPerSecond;
  return { own: ms(11) + ms(12), ended: ms(13) + ms(14) };
}

/** Resident memory of a process in MB, now and at its highest. */
export async function residentMb(pid: number): Promise<{ now: number; peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const read = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? Number.NaN) / 1024;
  return { now: read("VmRSS"), peak: read("VmHWM") };
}
