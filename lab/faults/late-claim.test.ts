import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "stint";
import { startCutProxy } from "../../packages/stint/test/support/cut-proxy.ts";
import { freshSchema } from "../../packages/stint/test/support/fresh.ts";
import { until } from "../../packages/stint/test/support/until.ts";
import { startWorker } from "../../packages/stint/test/support/watch.ts";

const plain = defineJob("plain", { payload: typed<object>() });
const fragile = defineJob("fragile", { payload: typed<object>(), maxCrashes: 1 });

/** As it was reported: a lease of 5 s, and the bytes from the worker to the server held for 25 s. Then, four jobs counted a crash. */
test("statements delayed for five leases count no crash", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const ran: string[] = [];
  const run = ({ id }: { id: string }): void => void ran.push(id);
  await startWorker(fresh.client({ database: proxy.url, prepare: false }), {
    pools: { default: 5 },
    lease: "5s",
    handlers: [handle(plain, run), handle(fragile, run)],
  });
  const held = proxy.holdAt("/* stint:claim", { all: true });
  await fresh
    .client()
    .enqueueMany([
      entry(plain, {}),
      entry(plain, {}),
      entry(plain, {}),
      entry(fragile, {}),
      entry(fragile, {}),
    ]);
  const late = await held;
  await sleep(25_000);
  await late.release();
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "every job has ended",
    deadlineMs: 120_000,
  });

  expect(ran).toHaveLength(5);
  expect(
    await fresh.sql("select from stint.jobs where crashes > 0 or attempts <> 1 or state <> 'succeeded'"),
  ).toEqual([]);
});
