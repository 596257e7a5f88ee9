import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { adminClient, testDatabaseUrl } from "../support/database.ts";
import { inLab } from "../support/lab.ts";
import { exampleArgs, root } from "./example.ts";

/** Runs an example in a database of its own. Returns what it printed. */
async function run(name: string): Promise<string> {
  const database = `example_${name}_${process.pid}`;
  const admin = await adminClient(testDatabaseUrl());
  await admin.query(`create database ${database}`);
  onTestFinished(async () => {
    await admin.query(`drop database ${database} with (force)`);
    await admin.end();
  });
  const url = new URL(testDatabaseUrl());
  url.pathname = `/${database}`;
  const child = spawn(process.execPath, exampleArgs(name), {
    cwd: root,
    env: { ...process.env, DATABASE_URL: url.href, JITI_FS_CACHE: "false" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const printed = await text(child.stdout);
  expect(await exited).toBe(0);
  return printed;
}

test("examples/batches: one call for several jobs, and an outcome for each", async () => {
  const printed = await run("batches");
  expect(printed).toMatch(/one call for \d+ documents/);
  expect(printed).toContain("document 6: documents-shared/6");
  expect(printed).toContain("document 7: failed");
  expect(printed).toContain("document 9: documents-shared/9");
});

test.runIf(inLab)("examples/shaping: debounce, throttle and latest wins report what they did", async () => {
  const printed = await run("shaping");
  expect(printed).toContain("alice: version 3 is deferred");
  expect(printed).toContain("bob: version 3 is existing");
  expect(printed).toContain("carol: version 2 is deferred");
  expect(printed).toContain("carol: version 4 is replaced");
});

test.runIf(inLab)(
  "examples/admission: a web handler responds try later while the queue is full",
  async () => {
    const printed = await run("admission");
    expect(printed).toContain("customer c3: 202");
    expect(printed).toMatch(/customer c4: 503, retry after \d+ s/);
  },
);
