import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const bench = new URL("../", import.meta.url);

/**
 * Compile `bench/` into `bench/dist/` and return the path of the actor. Actors run plain JavaScript: a TypeScript loader would add to
 * their memory and start time, and Node 20 has none built in.
 */
export async function compileActors(): Promise<URL> {
  const typescript = createRequire(import.meta.url).resolve("typescript/package.json");
  const project = fileURLToPath(new URL("tsconfig.actors.json", bench));
  await run(process.execPath, [join(dirname(typescript), "bin/tsc"), "--project", project]).catch(
    (error: { stdout?: string; message: string }) => {
      throw new Error(`bench/ does not compile:\n${error.stdout ?? error.message}`);
    },
  );
  return new URL("dist/actor/main.js", bench);
}
