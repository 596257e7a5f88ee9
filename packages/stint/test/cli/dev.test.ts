import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defineJob, typed, type Job } from "#stint/index.js";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { untilEnded } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { jsonOf, project, start, stint } from "./support.ts";

function handlers(version: number): string {
  return `
    import { existsSync } from "node:fs";
    import { setTimeout } from "node:timers/promises";
    import { defineJob, handle, typed } from "stint";
    const work = defineJob("work", { payload: typed<{ gate?: string }>() });
    export const handler = handle(work, async ({ payload }) => {
      console.log("the handler began");
      while (payload.gate !== undefined && !existsSync(payload.gate)) await setTimeout(10);
      return ${version};
    });`;
}

const config = `
  import { handler } from "./handlers/work.ts";
  export default { worker: { pools: { default: 2 }, handlers: [handler] } };`;

async function devProject(configText: string): Promise<string> {
  const files = { "stint.config.ts": configText, "handlers/work.ts": handlers(1) };
  return await project(files, await builtPackage());
}

test("dev starts Postgres, runs jobs, reloads after an edit, and drains on SIGINT", async () => {
  const folder = await devProject(config);
  const gate = join(folder, "gate");
  const dev = start(["dev"], { cwd: folder });
  const result = async (payload: object): Promise<unknown> => {
    const { id } = jsonOf(
      await stint(["enqueue", "work", JSON.stringify(payload), "--json"], { cwd: folder }),
    ) as { id: string };
    await dev.wrote(`${id} succeeded`);
    return (jsonOf(await stint(["jobs", "show", id, "--json"], { cwd: folder })) as Job).result;
  };

  await dev.wrote("Serving default ×2 (work)");
  expect(await result({})).toBe(1);

  await writeFile(join(folder, "handlers/work.ts"), handlers(2));
  await dev.wrote("handlers/work.ts changed");
  await dev.wrote("Serving default ×2 (work)", 2);
  expect(await result({})).toBe(2);

  const password = new URL(await readFile(join(folder, ".stint/url"), "utf8")).password;
  await stint(["enqueue", "work", JSON.stringify({ gate })], { cwd: folder });
  await dev.wrote("the handler began", 3);
  dev.process.kill("SIGINT");
  await dev.wrote("Stopping: running attempts may finish");
  await writeFile(gate, "");
  const { code } = await dev.ended;

  expect(code).toBe(0);
  expect(dev.text()).toMatch(/Drained in \S+ m?s: 1 ended, 0 released\./);
  expect(dev.text()).not.toContain(password);
  expect(existsSync(join(folder, ".stint/url"))).toBe(false);
  expect(existsSync(join(folder, ".stint/postgres/cluster/postmaster.pid"))).toBe(false);
});

test("dev reloads at once: a job of the old code is released and runs the new code", async () => {
  const fresh = await freshSchema();
  const folder = await devProject(config);
  const gate = join(folder, "gate");
  const dev = start(["dev", "--schema", fresh.schema], { cwd: folder, env: { DATABASE_URL: fresh.url } });
  await dev.wrote("Serving");
  const { id } = await fresh.client().enqueue(defineJob("work", { payload: typed<object>() }), { gate });
  await dev.wrote("the handler began");

  await writeFile(join(folder, "handlers/work.ts"), handlers(2));
  // The gate is still closed: a drain would wait for it.
  await dev.wrote("Serving", 2);
  await dev.wrote("the handler began", 2);
  await writeFile(gate, "");

  expect(await fresh.client().waitFor(id)).toBe(2);
  expect(await fresh.client().get(id)).toMatchObject({ attempts: 1, crashes: 0 });
  expect(dev.text()).toContain("0 ended, 1 released");
  dev.process.kill("SIGTERM");
  expect((await dev.ended).code).toBe(0);
});

test.runIf(inLab)(
  "dev uses DATABASE_URL if set, and waits for an edit that fixes a broken config",
  async () => {
    const fresh = await freshSchema();
    const folder = await devProject(`throw new Error("half written");`);
    const dev = start(["dev", "--schema", fresh.schema], { cwd: folder, env: { DATABASE_URL: fresh.url } });

    await dev.wrote("could not be loaded (Error: half written)");
    await dev.wrote("Waiting for a change");
    await writeFile(join(folder, "stint.config.ts"), config);
    await dev.wrote(`Serving default ×2 (work) in schema ${fresh.schema}`);
    dev.process.kill("SIGTERM");

    expect((await dev.ended).code).toBe(0);
    expect(existsSync(join(folder, ".stint"))).toBe(false);
  },
);

test.runIf(inLab)("when dev is killed, its worker process ends", async () => {
  const fresh = await freshSchema();
  const folder = await devProject(config);
  const dev = start(["dev", "--schema", fresh.schema], { cwd: folder, env: { DATABASE_URL: fresh.url } });
  await dev.wrote("Serving");
  const [worker] = await until(async () => await fresh.client().workers());

  dev.process.kill("SIGKILL");
  await untilEnded(worker!.pid);

  expect(await fresh.client().workers()).toEqual([]);
});

test.runIf(inLab)("dev restarts a worker that was killed", async () => {
  const fresh = await freshSchema();
  const folder = await devProject(config);
  const dev = start(["dev", "--schema", fresh.schema], { cwd: folder, env: { DATABASE_URL: fresh.url } });
  await dev.wrote("Serving");
  const [worker] = await until(async () => await fresh.client().workers());

  process.kill(worker!.pid, "SIGKILL");
  await dev.wrote("The worker was killed by SIGKILL; starting it again");
  await dev.wrote("Serving", 2);
  dev.process.kill("SIGTERM");

  expect((await dev.ended).code).toBe(0);
  expect(dev.text()).not.toContain("Waiting for a change");
});

test("dev exits with 1 when the database is unreachable, as no edit can fix that", async () => {
  const folder = await devProject(config);

  const ended = await start(["dev"], {
    cwd: folder,
    env: { DATABASE_URL: "postgres://app:hunter2@127.0.0.1:1/app" },
  }).ended;

  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("[DATABASE_UNAVAILABLE]") });
  expect(ended.stdout + ended.stderr).not.toContain("hunter2");
});
