import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { start, stintOn } from "./support.ts";

const add = defineJob("add", { payload: typed<unknown>(), queue: "sums" });
const other = defineJob("other", { payload: typed<unknown>(), queue: "sums" });

test("jobs tail prints jobs as they arrive and end, and Ctrl-C exits cleanly", async () => {
  const fresh = await freshSchema();
  const client = fresh.client();
  const before = await client.enqueue(add, {});
  const running = start(["jobs", "tail", "--kind", "add", "--every", "100ms", "--schema", fresh.schema], {
    env: { DATABASE_URL: fresh.url },
  });
  await running.wrote("Following.");

  const hidden = await client.enqueue(other, {});
  const { id } = await client.enqueue(add, {}, { key: "k" });
  await running.wrote(`${id}  ready      sums/add  key k`);
  await startWorker(client, { pools: { sums: 2 }, handlers: [handle(add, () => undefined)] });
  await running.wrote(`${id}  succeeded  sums/add`);
  await running.wrote(`${before.id}  succeeded`);
  running.process.kill("SIGINT");
  const ended = await running.ended;

  expect(ended).toMatchObject({ code: 0, stderr: "Following. Ctrl-C ends it.\n" });
  expect(ended.stdout).not.toContain(hidden.id);
  expect(ended.stdout).not.toContain(`${before.id}  ready`);
});

test("jobs tail prints the error of a job that will be retried", async () => {
  const fresh = await freshSchema();
  const client = fresh.client();
  const running = start(
    ["jobs", "tail", "--state", "retrying", "--every", "100ms", "--schema", fresh.schema],
    { env: { DATABASE_URL: fresh.url } },
  );
  await running.wrote("Following.");
  await startWorker(client, {
    pools: { sums: 1 },
    handlers: [handle(add, () => Promise.reject(new Error("no such sum")))],
  });
  const { id } = await client.enqueue(add, {}, { attempts: 2 });

  await running.wrote(`${id}  retrying   sums/add  Error: no such sum`);
  running.process.kill("SIGINT");
  expect((await running.ended).code).toBe(0);
});

test("jobs tail --json --state prints a JSON line for each change to that state", async () => {
  const fresh = await freshSchema();
  const client = fresh.client();
  const running = start(
    ["jobs", "tail", "--state", "cancelled", "--every", "100ms", "--json", "--schema", fresh.schema],
    { env: { DATABASE_URL: fresh.url } },
  );
  // It prints nothing until a job changes, so cancel one after another until one is printed.
  await until(async () => {
    const { id } = await client.enqueue(add, {});
    await client.cancel(id, { reason: "x" });
    return running.text().includes('"event":"job"');
  });
  running.process.kill("SIGTERM");
  const { stdout, code, stderr } = await running.ended;

  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const events = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { event: string; state: string });
  expect(events.length).toBeGreaterThan(0);
  for (const event of events) expect(event).toMatchObject({ event: "job", state: "cancelled", reason: "x" });
});

test("an unknown state or too short an interval is wrong usage", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);

  expect(await run("jobs", "tail", "--state", "redy")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "ready"') as string,
  });
  expect((await run("jobs", "tail", "--every", "1ms")).code).toBe(2);
});
