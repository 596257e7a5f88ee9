/**
 * A long import that continues after a kill -9. The worker is a separate process, which is killed in the middle. The next worker
 * continues from the last checkpoint.
 *
 *   npm run build && node --import jiti/register examples/resumable-import/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { fork } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createStint, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { importRows } from "./jobs.ts";

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

/** Starts the worker and prints its output. `printed` resolves at the line `until`. */
function startWorker(until?: string): { ended: Promise<unknown>; printed: Promise<void>; kill: () => void } {
  const program = fileURLToPath(new URL("worker.ts", import.meta.url));
  const child = fork(program, [], {
    env: { ...process.env, DATABASE_URL: database, STINT_SCHEMA: schema },
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const { stdout } = child;
  if (stdout === null) throw new Error("the worker has no output");
  const printed = new Promise<void>((resolve) => {
    createInterface({ input: stdout }).on("line", (line) => {
      console.log(line);
      if (line === until) resolve();
    });
  });
  return {
    printed,
    ended: new Promise((resolve) => child.once("exit", resolve)),
    kill: () => child.kill("SIGKILL"),
  };
}

const job = await stint.enqueue(importRows, { rows: 1_000 });
const first = startWorker("imported rows 400 to 499");
await first.printed;
first.kill();
await first.ended;
console.log("killed with -9");

// The lease runs out after a second; then the next worker rescues the job.
const second = startWorker();
const imported = await stint.waitFor(job, { timeout: "60s" });
console.log(`imported ${imported.rows} rows; the second worker began at row ${imported.resumedAt}`);

const { progress } = await stint.steps(job);
console.log(`progress: ${progress?.fraction}, ${progress?.note}`);

second.kill();
await second.ended;
await stint.close();
await server?.stop();
