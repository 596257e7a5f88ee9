import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema } from "../support/fresh.ts";
import { project, start, stint } from "./support.ts";

const config = `
  import { existsSync } from "node:fs";
  import { setTimeout } from "node:timers/promises";
  import { defineJob, handle, PermanentError, typed } from "stint";
  const wait = defineJob("wait", { payload: typed<{ gate: string }>() });
  const scan = defineJob("scan", { payload: typed<object>(), queue: "ocr" });
  export default {
    worker: {
      pools: { default: 2, ocr: 4 },
      drain: "20s",
      abort: "100ms",
      handlers: [
        handle(wait, async ({ payload, signal }) => {
          console.log("the handler began");
          while (!existsSync(payload.gate)) await setTimeout(10, undefined, { signal });
        }),
        handle(scan, () => { throw new PermanentError("unreadable"); }),
      ],
    },
  };`;

test("a worker prints its pools, runs jobs, and drains on SIGTERM with exit code 0", async () => {
  const fresh = await freshSchema();
  const folder = await project({ "stint.config.ts": config });
  const options = { cwd: folder, env: { DATABASE_URL: fresh.url } };
  const gate = join(folder, "gate");
  const worker = start(["worker", "--schema", fresh.schema], options);
  await worker.wrote("Serving default ×2 (wait), ocr ×4 (scan)");

  const job = await stint(["enqueue", "wait", JSON.stringify({ gate }), "--schema", fresh.schema], options);
  await worker.wrote("the handler began");
  worker.process.kill("SIGTERM");
  await worker.wrote("worker stopping");
  await writeFile(gate, "");
  const { code, stdout } = await worker.ended;

  expect(code).toBe(0);
  expect(stdout).toMatch(/Drained in \S+ m?s: 1 ended, 0 released\./);
  expect(await fresh.client().get(job.stdout.trim().split(" ")[2]!)).toMatchObject({
    state: "succeeded",
    attempts: 1,
  });
});

test("a worker recognises the library's errors that its handlers throw", async () => {
  const fresh = await freshSchema();
  const options = { cwd: await project({ "stint.config.ts": config }), env: { DATABASE_URL: fresh.url } };
  const worker = start(["worker", "--pool", "ocr", "--schema", fresh.schema, "--json"], options);
  await worker.wrote(`"event":"serving"`);

  await stint(["enqueue", "scan", "{}", "--schema", fresh.schema], options);
  await worker.wrote("scan is dead");
  worker.process.kill("SIGINT");
  const { code, stdout } = await worker.ended;

  expect(code).toBe(0);
  expect(
    stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as object),
  ).toMatchObject([
    {
      event: "serving",
      schema: fresh.schema,
      pools: [{ pool: "ocr", queues: ["ocr"], slots: 4, kinds: ["scan"] }],
    },
    { event: "stopped", released: 0 },
  ]);
});

test("a second signal ends the drain, and the job is released unspent", async () => {
  const fresh = await freshSchema();
  const cwd = await project({ "stint.config.ts": config }, await builtPackage());
  const options = { cwd, env: { DATABASE_URL: fresh.url } };
  const worker = start(["worker", "--drain", "5m", "--schema", fresh.schema], options);
  await worker.wrote("Serving");
  const job = await stint(["enqueue", "wait", `{"gate":"/never/there"}`, "--schema", fresh.schema], options);
  await worker.wrote("the handler began");

  worker.process.kill("SIGTERM");
  await worker.wrote("worker stopping");
  worker.process.kill("SIGTERM");
  const { code } = await worker.ended;

  expect(code).toBe(0);
  expect(await fresh.client().get(job.stdout.trim().split(" ")[2]!)).toMatchObject({
    state: "ready",
    attempts: 0,
  });
});

test("a pool missing from the config is wrong usage", async () => {
  const options = {
    cwd: await project({ "stint.config.ts": config }),
    env: { DATABASE_URL: "postgres://x@127.0.0.1:1/x" },
  };

  expect(await stint(["worker", "--pool", "orc"], options)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "ocr"?'),
  });
  expect(await stint(["worker", "--drain", "long"], options)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--drain: must be"),
  });
});
