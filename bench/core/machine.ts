import { readFile } from "node:fs/promises";
import { cpus, loadavg, release, totalmem, type } from "node:os";

/** One line about the machine. Figures cannot be interpreted without it. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${cpu?.model.trim() ?? "unknown"}, ${memory} GiB, ${type()} ${release().split("-")[0]}; client, workers and server share it`;
}

/** A warning if other processes keep the machine busy: figures then mostly show their load. */
export function busyWarning(): string | undefined {
  const [load = 0] = loadavg();
  if (load < cpus().length / 2) return undefined;
  return `The machine is busy already (load ${load.toFixed(1)} on ${cpus().length} cores): expect noise`;
}

/** The version of Stint. */
export async function stintVersion(): Promise<string> {
  const text = await readFile(new URL("../../packages/stint/package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
