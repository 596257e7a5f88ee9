import { readFile } from "node:fs/promises";

const ticksPerSecond = 100;

/** Processor time in ms used by all threads of a process; 0 once the process has exited. */
export async function cpuMsOf(pid: number): Promise<number> {
  return (await times(pid)).own;
}

/** Processor time in ms of a server and its sessions, including sessions that have ended. */
export async function cpuMsOfServer(pid: number): Promise<number> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const pids = children.split(" ").filter((child) => child !== "");
  const live = await Promise.all(pids.map((child) => cpuMsOf(Number(child))));
  const { own, ended } = await times(pid);
  return live.reduce((sum, ms) => sum + ms, own + ended);
}

async function times(pid: number): Promise<{ own: number; ended: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name in brackets may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ms = (field: number): number => (Number(fields[field] ?? 0) * 1000) / ticksPerSecond;
  return { own: ms(11) + ms(12), ended: ms(13) + ms(14) };
}

/** Resident memory of a process in MB: current and peak. */
export async function residentMb(pid: number): Promise<{ now: number; peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const read = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? Number.NaN) / 1024;
  return { now: read("VmRSS"), peak: read("VmHWM") };
}
