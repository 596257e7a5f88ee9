import { fileURLToPath } from "node:url";
import { inLab } from "../support/lab.ts";
import { builtProgram } from "../support/worker-process.ts";

export const root = fileURLToPath(new URL("../../../../", import.meta.url));

/**
 * The arguments of Node that run an example: in the lab as its readers start it, otherwise bundled. To compile it and to load the library file by
 * file takes two seconds of CPU for each process.
 */
export function exampleArgs(name: string): string[] {
  const file = `examples/${name}/main.ts`;
  return inLab ? ["--import", "jiti/register", file] : [builtProgram(`${root}${file}`)];
}
