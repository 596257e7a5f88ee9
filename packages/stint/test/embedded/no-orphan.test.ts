import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbedded } from "#stint/embedded/embedded.js";
import { isAlive } from "#stint/embedded/processes.js";
import { query } from "../support/database.ts";
import { holdEmbedded } from "../support/embedded-holder.ts";
import { openFolder } from "../support/folder.ts";
import { untilEnded, untilRemoved } from "../support/processes.ts";
import { inLab } from "../support/lab.ts";

const settings = { fsync: "off" };

let dataDir: string;

beforeAll(async () => {
  dataDir = join(await openFolder(), "server");
});

afterAll(async () => rm(dirname(dataDir), { recursive: true, force: true }));

test("a process killed with -9 leaves neither server nor temp folder", async () => {
  const holder = holdEmbedded({ settings });
  const { pid, dataDir: folder } = await holder.reported("started");

  holder.process.kill("SIGKILL");

  await untilEnded(pid);
  await untilRemoved(folder);
  expect(isAlive(pid)).toBe(false);
});

test.runIf(inLab)(
  "a process killed with -9 while the cluster is being made leaves no temp folder",
  async () => {
    const holder = holdEmbedded({ settings });
    const line = await holder.reported("progress");
    const folder = /in (\S+)$/.exec(line)![1]!;

    holder.process.kill("SIGKILL");

    await untilRemoved(folder);
    expect(existsSync(folder)).toBe(false);
  },
);

test("a kept server is shut down cleanly when its process is killed with -9", async () => {
  const holder = holdEmbedded({ dataDir, settings });
  const { pid, url } = await holder.reported("started");
  await query("create table kept ()", [], url);

  holder.process.kill("SIGKILL");
  await untilEnded(pid);

  expect(await readFile(join(dataDir, "server.log"), "utf8")).toContain("database system is shut down");
});

test("a server whose guardian was killed is taken over by the next start", async () => {
  const holder = holdEmbedded({ dataDir, settings });
  const { pid } = await holder.reported("started");
  await killGuardians(pid);
  holder.process.kill("SIGKILL");
  await holder.ended;
  expect(isAlive(pid)).toBe(true);

  const server = await startEmbedded({ dataDir, settings });

  expect(isAlive(pid)).toBe(false);
  expect(server.joined).toBe(false);
  await server.stop();
  expect(isAlive(server.pid)).toBe(false);
});

test.runIf(inLab)("Ctrl-C reaches the program and not its server", async () => {
  const holder = holdEmbedded({ settings });
  const { pid, url } = await holder.reported("started");

  // What a terminal does: the signal goes to everyone in the foreground group.
  process.kill(-holder.process.pid!, "SIGINT");
  await holder.reported("interrupted");

  expect(await query("select 1 as one", [], url)).toEqual([{ one: 1 }]);
  holder.process.kill("SIGTERM");
  await holder.reported("stopped");
  expect(isAlive(pid)).toBe(false);
});

test.runIf(inLab)(
  "a program that forgets to stop its server still ends, and the server with it",
  async () => {
    const holder = holdEmbedded({ settings }, { afterwards: "forget" });
    const { pid, dataDir: folder } = await holder.reported("started");

    await holder.ended;

    expect(holder.process.exitCode).toBe(0);
    await untilEnded(pid);
    await untilRemoved(folder);
  },
);

/** The guardian is two shells: the server's parent, and a child of that parent which watches the pipe. */
async function killGuardians(server: number): Promise<void> {
  const parent = Number(await stat(server, "PPid"));
  const children = await readFile(`/proc/${parent}/task/${parent}/children`, "utf8");
  const watchers = children
    .trim()
    .split(" ")
    .map(Number)
    .filter((pid) => pid !== server);
  // Stopped first: one that sees the end of another stops the server before it is killed itself.
  for (const signal of ["SIGSTOP", "SIGKILL"] as const)
    for (const pid of [parent, ...watchers]) process.kill(pid, signal);
}

async function stat(pid: number, field: string): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return new RegExp(`^${field}:\\s*(\\S+)`, "m").exec(status)![1]!;
}
