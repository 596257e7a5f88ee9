import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "#stint/embedded/processes.js";
import { mergeMetrics } from "#stint/cli/processes/group-health.js";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { untilEnded } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { project, start, stint, type Running } from "./support.ts";

/** `wait` runs until there is a file, `block` blocks the event loop for ever. JavaScript: every process would compile TypeScript first. */
const config = `
  import { spawn } from "node:child_process";
  import { existsSync } from "node:fs";
  import { setTimeout } from "node:timers/promises";
  import { defineJob, handle, typed } from "stint";
  const act = defineJob("act", { payload: typed() });
  if (existsSync("broken")) throw new Error("the config is broken");
  if (existsSync("deadly") && process.send) process.kill(process.pid, "SIGKILL");
  export default {
    worker: {
      pools: { default: 2 },
      drain: "30s",
      abort: "100ms",
      handlers: [
        handle(act, async ({ payload, signal }) => {
          // The program has the output of this process.
          if (payload.do === "program") console.log("program " + spawn("sleep", ["600"], { stdio: "inherit" }).pid);
          console.log("begun " + payload.do + " in " + process.pid);
          if (payload.do === "block") for (;;);
          while (payload.do === "wait" && !existsSync(payload.gate)) await setTimeout(10, undefined, { signal });
        }),
      ],
    },
  };`;

type Group = {
  fresh: Fresh;
  folder: string;
  group: Running;
  pids: () => Promise<number[]>;
  enqueue: (payload: object) => Promise<string>;
};

async function startGroup(...args: readonly string[]): Promise<Group> {
  const fresh = await freshSchema();
  const folder = await project({ "stint.config.mjs": config }, await builtPackage());
  const group = start(["worker", "--schema", fresh.schema, "--processes", "2", ...args], {
    cwd: folder,
    env: { DATABASE_URL: fresh.url },
  });
  const pids = async (): Promise<number[]> =>
    (await fresh.sql("select pid from stint.worker where not draining order by pid")).map(({ pid }) =>
      Number(pid),
    );
  onTestFinished(async () => {
    for (const pid of await pids().catch(() => [])) if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  await until(async () => (await pids()).length === 2, { message: "two processes serve" }).catch(
    (error: Error) => {
      throw new Error(`${error.message}\n${group.text()}`, { cause: error });
    },
  );
  const enqueue = async (payload: object): Promise<string> => {
    const rows = await fresh.sql("select stint.enqueue('act', $1::jsonb) as id", [JSON.stringify(payload)]);
    return String(rows[0]?.["id"]);
  };
  return { fresh, folder, group, pids, enqueue };
}

test("SIGTERM drains every process, exits with 0, and lines have process numbers", async () => {
  const { fresh, folder, group, enqueue } = await startGroup();
  const gate = join(folder, "gate");
  const id = await enqueue({ do: "wait", gate });
  await group.wrote("begun wait");
  group.process.kill("SIGTERM");
  await group.wrote("worker stopping", 2);
  await writeFile(gate, "");
  const { code, stdout, stderr } = await group.ended;

  expect(code).toBe(0);
  expect(stdout).toMatch(/^\[1\] Serving default ×2/m);
  expect(stdout).toMatch(/^\[2\] Drained in/m);
  expect(stdout).toMatch(/^\[[12]\] begun wait/m);
  expect(stderr).toMatch(/^\{"process":1,"time"/m);
  expect(await fresh.client().get(id)).toMatchObject({ state: "succeeded", attempts: 1 });
});

test.runIf(inLab)("a second signal ends the drain of every process, with the job released", async () => {
  const { fresh, group, enqueue } = await startGroup();
  const id = await enqueue({ do: "wait", gate: "/never/there" });
  await group.wrote("begun wait");
  group.process.kill("SIGINT");
  await group.wrote("worker stopping", 2);
  group.process.kill("SIGINT");
  expect((await group.ended).code).toBe(0);
  expect(await fresh.client().get(id)).toMatchObject({ state: "ready", attempts: 0 });
});

test("a process that is killed is started again, and the other one continues", async () => {
  const { group, pids, enqueue } = await startGroup("--json");
  const before = await pids();
  // A program that it has started, and that runs on, keeps its output open.
  await enqueue({ do: "program" });
  await group.wrote("begun program");
  const [, program, killed] = /program (\d+)[^]*begun program in (\d+)/.exec(group.text()) ?? [];
  onTestFinished(() => void process.kill(Number(program), "SIGKILL"));
  process.kill(Number(killed), "SIGKILL");
  await group.wrote(`"signal":"SIGKILL"`);
  await group.wrote(`"event":"serving"`, 3);

  const served = (await pids()).filter((pid) => isAlive(pid));
  expect(served).toHaveLength(2);
  expect(served).toContain(before.find((pid) => pid !== Number(killed)));
  group.process.kill("SIGTERM");
  expect((await group.ended).code).toBe(0);
});

test("SIGHUP replaces the processes one by one, and running jobs drain in the old ones", async () => {
  const { fresh, folder, group, pids, enqueue } = await startGroup("--json");
  const before = await pids();
  const gate = join(folder, "gate");
  const ids = [await enqueue({ do: "wait", gate }), await enqueue({ do: "wait", gate })];
  await group.wrote("begun wait", 2);
  group.process.kill("SIGHUP");
  await group.wrote(`"event":"serving"`, 3);
  await writeFile(gate, "");
  await group.wrote(`"event":"serving"`, 4);
  for (const pid of before) await untilEnded(pid);

  expect(await pids()).toHaveLength(2);
  for (const id of ids)
    expect(await fresh.client().get(id)).toMatchObject({ state: "succeeded", attempts: 1 });
  group.process.kill("SIGTERM");
  expect((await group.ended).code).toBe(0);
});

test.runIf(inLab)("a restart whose new process cannot start leaves the old ones serving", async () => {
  const { folder, group, pids } = await startGroup();
  const before = await pids();
  await writeFile(join(folder, "broken"), "");
  group.process.kill("SIGHUP");
  await group.wrote("The new process 1 did not start; the old processes stay");
  expect(group.text()).toContain("the config is broken");
  expect((await pids()).filter((pid) => isAlive(pid))).toEqual(before);
  group.process.kill("SIGTERM");
  expect((await group.ended).code).toBe(0);
});

test.runIf(inLab)("a process that dies at once again and again is started after growing delays", async () => {
  const { folder, group, pids } = await startGroup("--json");
  await writeFile(join(folder, "deadly"), "");
  process.kill((await pids())[0]!, "SIGKILL");
  await group.wrote(`"restartsInMs"`, 4);
  const delays = [...group.text().matchAll(/"restartsInMs":(\d+)/g)].map(([, ms]) => Number(ms));
  for (const [index, ms] of delays.entries()) expect(ms).toBeGreaterThanOrEqual(250 * 2 ** index);
  group.process.kill("SIGTERM");
  expect((await group.ended).code).toBe(0);
});

test("processes whose supervisor is killed drain and end", async () => {
  const { fresh, folder, group, pids, enqueue } = await startGroup();
  const gate = join(folder, "gate");
  const id = await enqueue({ do: "wait", gate });
  await group.wrote("begun wait");
  const before = await pids();
  group.process.kill("SIGKILL");
  await until(async () => (await pids()).length === 0, { message: "both drain" });
  await writeFile(gate, "");
  for (const pid of before) await untilEnded(pid);
  expect(await fresh.client().get(id)).toMatchObject({ state: "succeeded", attempts: 1 });
});

test.runIf(inLab)("a process that does not stop in time is killed, and the exit code is 1", async () => {
  const { group, enqueue } = await startGroup("--drain", "100ms");
  await enqueue({ do: "block" });
  await group.wrote("begun block");
  group.process.kill("SIGTERM");
  const { code, stdout } = await group.ended;
  expect(code).toBe(1);
  expect(stdout).toMatch(/Process [12] did not stop in time and was killed\./);
});

test("a config that cannot work ends the supervisor with one error and its exit code", async () => {
  const folder = await project({ "stint.config.ts": "export default {};" }, await builtPackage());
  const options = { cwd: folder, env: { DATABASE_URL: "postgres://x@127.0.0.1:1/x" } };
  const { code, stderr } = await start(["worker", "--processes", "3"], options).ended;
  expect(code).toBe(2);
  expect(stderr.match(/is needed to run a worker/g)).toHaveLength(1);
  const wrong = await stint(["worker", "--processes", "0"], options);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("--processes: must be") });
});

test("one health server reports on all processes and has the metrics of each", async () => {
  const { group, pids } = await startGroup("--json", "--health-port", "0");
  const url = /"health":"([^"]+)"/.exec(group.text())?.[1];
  const get = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${url}${path}`);
    return { status: response.status, text: await response.text() };
  };
  await until(async () => (await get("/readyz")).status === 200, { message: "both are ready" });
  expect((await get("/livez")).status).toBe(200);
  expect((await get("/startupz")).status).toBe(200);
  const { text } = await get("/metrics");
  for (const number of [1, 2])
    expect(text).toContain(`stint_worker_slots{process="${number}",pool="default",state="free"} 2`);
  expect(text.match(/# TYPE stint_worker_slots /g)).toHaveLength(1);

  const [stopped] = await pids();
  process.kill(stopped!, "SIGSTOP");
  expect(await get("/readyz")).toMatchObject({
    status: 503,
    text: expect.stringContaining("does not respond"),
  });
  expect((await get("/livez")).status).toBe(200);
  process.kill(stopped!, "SIGCONT");
  group.process.kill("SIGTERM");
  expect((await group.ended).code).toBe(0);
});

test("merged metrics describe each metric once, with the process as a label", () => {
  const page = '# HELP a Help.\n# TYPE a gauge\na 1\n# TYPE b counter\nb{queue="x y"} 2\n';
  expect(
    mergeMetrics([
      { process: 1, text: page },
      { process: 2, text: page },
    ]),
  ).toBe(
    '# HELP a Help.\n# TYPE a gauge\na{process="1"} 1\na{process="2"} 1\n' +
      '# TYPE b counter\nb{process="1",queue="x y"} 2\nb{process="2",queue="x y"} 2\n',
  );
});
