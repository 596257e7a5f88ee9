import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { defineJob, entry, handle, typed, type Enqueued } from "#stint/index.js";
import type { StandardSchema } from "#stint/model/standard-schema.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const slow = defineJob("slow", { payload: typed<number>() });
const next = defineJob("next", { payload: typed<number>() });

test("close stops workers first: running jobs end, may enqueue, and are settled", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [next] });
  const [running, go] = [gate(), gate()];
  let followed: Enqueued | undefined;
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [
      handle(slow, async () => {
        running.open();
        await go.opened;
        followed = await stint.enqueue("next", 1, { delay: "1h" });
      }),
    ],
  });
  const idle = stint.worker({ pools: { default: 1 }, signals: false, handlers: [handle(slow, () => 1)] });
  await worker.start();
  const { id } = await stint.enqueue(slow, 1);
  await running.opened;

  const stopping = new Promise<void>((resolve) => worker.on("stopping", () => resolve()));
  const closing = stint.close();
  await stopping;
  go.open();
  await closing;

  const reader = fresh.client();
  expect(await reader.get(id)).toMatchObject({ state: "succeeded", attempts: 1, interruptions: 0 });
  expect(await reader.get(followed!.id)).toMatchObject({ state: "scheduled" });
  expect(await reader.workers()).toEqual([]);
  await expect(idle.start()).rejects.toThrow("this worker was stopped");
  expect(() => stint.worker({ pools: { default: 1 }, handlers: [handle(slow, () => 1)] })).toThrow(
    "was closed",
  );
});

test("close waits for a stop in progress without shortening it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [running, go] = [gate(), gate()];
  let aborted = false;
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [
      handle(slow, async ({ signal }) => {
        signal.addEventListener("abort", () => (aborted = true));
        running.open();
        await go.opened;
      }),
    ],
  });
  await worker.start();
  await stint.enqueue(slow, 1);
  await running.opened;
  const stopped = worker.stop();
  let closed = false;
  const closing = stint.close().then(() => (closed = true));
  // A shortened stop would have aborted the handler before the database replied.
  await until(async () => {
    const [row] = await fresh.sql<{ draining: boolean }>("select draining from stint.worker");
    return row?.draining;
  });
  expect({ aborted, closed }).toEqual({ aborted: false, closed: false });
  go.open();
  expect(await stopped).toMatchObject({ drained: 1, released: 0 });
  await closing;
});

test("a process exits by itself after its client was closed", async () => {
  const fresh = await freshSchema();
  const script = `
    import { createStint, defineJob, handle, silentLogger, typed } from "stint";
    const stint = createStint({ database: process.argv[1], schema: process.argv[2], logger: silentLogger });
    const job = defineJob("slow", { payload: typed() });
    const begun = new Promise((resolve) => {
      const worker = stint.worker({
        pools: { default: 1 },
        handlers: [handle(job, async () => { resolve(); await new Promise(setImmediate); console.log("ran"); })],
      });
      worker.start();
    });
    await stint.enqueue(job, 1);
    await begun;
    await stint.close();
    console.log("closed");`;
  const child = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", script, fresh.url, fresh.schema],
    { cwd: fileURLToPath(new URL("../../", import.meta.url)), timeout: 60_000 },
  );
  expect(child.stdout).toBe("ran\nclosed\n");
});

/** Checked asynchronously, as a schema that looks something up would be. */
function looksUp(until: Promise<unknown>): StandardSchema<number> {
  const validate = async (value: unknown): Promise<{ value: number }> => {
    await until;
    return { value: value as number };
  };
  return { "~standard": { version: 1, vendor: "test", validate } };
}

test("close waits for calls in progress and refuses later ones", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const looked = gate();
  const checked = defineJob("checked", { payload: looksUp(looked.opened) });
  const calls = [
    stint.enqueue(checked, 1),
    stint.enqueue(checked, 2, { dedupe: { key: "two" } }),
    stint.enqueueMany([entry(slow, 3), entry(checked, 4)]),
    stint.enqueueMany([entry(checked, 5)], { onError: "report" }),
    stint.queues(),
    stint.list(),
  ];
  const closing = stint.close();
  await expect(stint.enqueue(slow, 7)).rejects.toThrow("stint: was closed");
  // Turns in which everything else would be closed.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  looked.open();
  await Promise.all(calls);
  await closing;

  expect(await fresh.sql("select from stint.job")).toHaveLength(5);
  await expect(stint.enqueueMany([entry(slow, 8)])).rejects.toThrow("stint: was closed");
});

test("close right after an unawaited enqueue still stores the job", async () => {
  const fresh = await freshSchema();
  const script = `
    import { createStint, defineJob, silentLogger } from "stint";
    const stint = createStint({ database: process.argv[1], schema: process.argv[2], logger: silentLogger });
    const validate = (value) => new Promise((resolve) => setTimeout(resolve, 50, { value }));
    const payload = { "~standard": { version: 1, vendor: "test", validate } };
    const pending = stint.enqueue(defineJob("slow", { payload }), 1);
    await stint.close();
    console.log((await pending).created);`;
  const child = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", script, fresh.url, fresh.schema],
    { cwd: fileURLToPath(new URL("../../", import.meta.url)), timeout: 60_000 },
  );
  expect(child.stdout).toBe("true\n");
  expect(await fresh.sql("select from stint.job")).toHaveLength(1);
});
