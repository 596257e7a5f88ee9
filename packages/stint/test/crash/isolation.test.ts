import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "#stint/embedded/processes.js";
import { project, start, type Running } from "../cli/support.ts";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { untilEnded } from "../support/processes.ts";
import { until } from "../support/until.ts";

/** The handler is TypeScript, as the config is. It blocks like an endless loop, without taking a core from the other tests. */
const files = {
  "stint.config.ts": `
    import { handle } from "stint";
    import { spin } from "./jobs.ts";
    export default {
      worker: {
        pools: { default: 2 },
        drain: "100ms",
        abort: "1s",
        handlers: [handle(spin, new URL("./spin.ts", import.meta.url), { isolate: { in: "process", memory: "256mb" } })],
      },
    };`,
  "jobs.ts": `
    import { defineJob, typed } from "stint";
    export const spin = defineJob("spin", { payload: typed<object>() });`,
  "spin.ts": `
    import { handle } from "stint";
    import { spin } from "./jobs.ts";
    export default handle(spin, (): void => {
      const pid: number = process.pid;
      console.log("blocks in " + pid);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`,
};

type Blocked = { fresh: Fresh; worker: Running; id: string; pid: number };

/** A worker process, whose handler blocks in another process. */
async function blocked(): Promise<Blocked> {
  const fresh = await freshSchema();
  const folder = await project(files, await builtPackage());
  const worker = start(["worker", "--schema", fresh.schema], {
    cwd: folder,
    env: { DATABASE_URL: fresh.url },
  });
  await worker.wrote("Serving");
  const [row] = await fresh.sql("select stint.enqueue('spin', '{}') as id");
  await worker.wrote("blocks in");
  const pid = Number(/blocks in (\d+)/.exec(worker.text())?.[1]);
  onTestFinished(() => {
    if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  return { fresh, worker, id: String(row?.["id"]), pid };
}

test("a blocked handler ends with its worker that was killed", async () => {
  const { fresh, worker, id, pid } = await blocked();
  worker.process.kill("SIGKILL");
  await untilEnded(pid);
  expect(await fresh.client().get(id)).toMatchObject({ state: "running", epoch: 1 });
});

test("a drain ends a blocked handler, which Ctrl-C does not reach; nothing is spent", async () => {
  const { fresh, worker, id, pid } = await blocked();
  process.kill(pid, "SIGINT");
  process.kill(pid, "SIGTERM");
  await until(async () => (await fresh.client().get(id))?.state === "running");
  expect(isAlive(pid)).toBe(true);
  worker.process.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  await untilEnded(pid);
  expect(await fresh.client().get(id)).toMatchObject({ state: "ready", attempts: 0, crashes: 0 });
});
