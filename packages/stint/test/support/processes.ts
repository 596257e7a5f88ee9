import { existsSync } from "node:fs";
import { isAlive } from "#stint/embedded/processes.js";
import { until } from "./until.ts";

export async function untilEnded(pid: number): Promise<void> {
  await until(() => !isAlive(pid), { message: `process ${pid} has ended` });
}

export async function untilRemoved(path: string): Promise<void> {
  await until(() => !existsSync(path), { message: `${path} is removed` });
}
