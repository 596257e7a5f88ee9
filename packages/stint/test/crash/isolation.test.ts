import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "#stint/embedded/processes.js";
import { project, start, type Running } from "../cli/support.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { untilEnded } from "../support/processes.ts";
import { until } from "../support/until.ts";

/** The handler is TypeScript, as the config is. */
const files = {
  "stint.config.ts": `
    import { handle } from "stint";
    import { spin } from "./jobs.ts";
    export default {
      worker: {
        pools: { default: 2 },
        lease: "3s",
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
      console.log("spins in " + pid);
      for (;;);
    });`,
};

type Spinning = { fresh: Fresh; worker: Running; id: string; pid: number };

/** A worker process, whose handler spins in another process. */
async function spinning(): Promise<Spinning> {
  const fresh = await unusedSchema();
  const folder = await project(files);
  const worker = start(["worker", "--schema", fresh.schema], {
    cwd: folder,
    env: { DATABASE_URL: fresh.url },
  });
  await worker.wrote("Serving");
  const [row] = await fresh.sql("select stint.enqueue('spin', '{}') as id");
  await worker.wrote("spins in");
  const pid = Number(/spins in (\d+)/.exec(worker.text())?.[1]);
  onTestFinished(() => {
    if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  return { fresh, worker, id: String(row?.["id"]), pid };
}

test("a spinning handler ends with its worker that was killed", async () => {
  const { fresh, worker, id, pid } = await spinning();
  worker.process.kill("SIGKILL");
  await untilEnded(pid);
  expect(await fresh.client().get(id)).toMatchObject({ state: "running", epoch: 1 });
});

test("a drain ends a spinning handler and releases its job with nothing spent", async () => {
  const { fresh, worker, id, pid } = await spinning();
  worker.process.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  await untilEnded(pid);
  expect(await fresh.client().get(id)).toMatchObject({ state: "ready", attempts: 0, crashes: 0 });
});

test("Ctrl-C of a terminal does not reach the process of a handler", async () => {
  const { fresh, worker, id, pid } = await spinning();
  process.kill(pid, "SIGINT");
  process.kill(pid, "SIGTERM");
  await until(async () => (await fresh.client().get(id))?.state === "running");
  expect(isAlive(pid)).toBe(true);
  worker.process.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});
