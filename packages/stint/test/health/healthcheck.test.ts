import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { project, start, stint } from "../cli/support.ts";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";

const config = `
  import { existsSync } from "node:fs";
  import { setTimeout } from "node:timers/promises";
  import { defineJob, handle, typed } from "stint";
  const wait = defineJob("wait", { payload: typed<{ gate: string }>() });
  const block = defineJob("block", { payload: typed<{ gate: string }>() });
  const doze = new Int32Array(new SharedArrayBuffer(4));
  export default {
    worker: {
      pools: { default: 2 },
      handlers: [
        handle(wait, async ({ payload }) => {
          console.log("the handler began");
          while (!existsSync(payload.gate)) await setTimeout(10);
        }),
        handle(block, ({ payload }) => {
          process.stderr.write("the event loop stands still\\n");
          while (!existsSync(payload.gate)) Atomics.wait(doze, 0, 0, 20);
        }),
      ],
    },
  };`;

async function running() {
  const fresh = await freshSchema();
  const folder = await project({ "stint.config.ts": config }, await builtPackage());
  const options = { cwd: folder, env: { DATABASE_URL: fresh.url } };
  const worker = start(["worker", "--schema", fresh.schema, "--drain", "20s", "--health-port", "0"], options);
  const port = await until(() => /Health at http:\/\/127\.0\.0\.1:(\d+)/.exec(worker.text())?.[1], {
    message: "the worker shows its port",
  });
  const gate = join(folder, "gate");
  return {
    worker,
    open: async () => await writeFile(gate, ""),
    enqueue: async (kind: string) =>
      await stint(["enqueue", kind, JSON.stringify({ gate }), "--schema", fresh.schema], options),
    // In a folder of its own: it needs neither a config nor a database.
    check: async (...what: string[]) =>
      await stint(["worker", "--healthcheck", ...what], {
        env: { STINT_HEALTH_PORT: String(port) },
      }),
  };
}

test("a healthcheck reports liveness and readiness: running, draining, gone", async () => {
  const { worker, check, enqueue, open } = await running();
  expect(await check()).toMatchObject({ code: 0, stdout: "live: ok\n" });
  await until(async () => (await check("ready")).code === 0);

  await enqueue("wait");
  await worker.wrote("the handler began");
  worker.process.kill("SIGTERM");
  await worker.wrote("worker stopping");
  expect(await check("ready")).toMatchObject({ code: 1, stdout: expect.stringContaining("draining") });
  expect(await check("live")).toMatchObject({ code: 0 });
  await open();
  expect(await worker.ended).toMatchObject({ code: 0 });
  expect(await check()).toMatchObject({ code: 1, stdout: expect.stringContaining("ECONNREFUSED") });
});

test("a healthcheck of a blocked event loop fails", async () => {
  const { worker, check, enqueue, open } = await running();
  await enqueue("block");
  await worker.wrote("the event loop stands still");
  expect(await check()).toMatchObject({ code: 1, stdout: expect.stringContaining("no response within 3s") });
  await open();
  await until(async () => (await check()).code === 0);
});

test("a healthcheck with invalid options exits with wrong usage", async () => {
  expect(await stint(["worker", "--healthcheck"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--health-port: is needed"),
  });
  expect(await stint(["worker", "--healthcheck", "redy", "--health-port", "1"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "ready"?'),
  });
});
