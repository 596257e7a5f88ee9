import { expect, test } from "vitest";
import { JobFailedError } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { double, startWorker } from "./double.ts";

test("waits for many jobs and returns their results in order", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = [await stint.enqueue(double, 1), await stint.enqueue(double, 2)] as const;
  await startWorker(stint);
  const results: [number, number] = await stint.waitFor(jobs, { timeout: "60s" });
  expect(results).toEqual([2, 4]);
  expect(await stint.waitFor([])).toEqual([]);
  // The same job twice is one job.
  expect(await stint.waitFor([jobs[0], jobs[0].id], { timeout: "60s" })).toEqual([2, 2]);
});

test("of many jobs the first failure rejects, or is reported in its place", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const good = await stint.enqueue(double, 1);
  const bad = await stint.enqueue(double, -1);
  const never = await stint.enqueue(double, 3, { delay: "1h" });
  await startWorker(stint);
  await expect(stint.waitFor([never, bad, good])).rejects.toBeInstanceOf(JobFailedError);
  const [first, second] = await stint.waitFor([good, bad], { onError: "report" });
  expect(first).toBe(2);
  expect(second).toBeInstanceOf(JobFailedError);
});

test.each([
  [[5], {}, "waitFor(jobs)[0]"],
  [["not-an-id"], {}, "must be the UUID of a job"],
  [[], { onError: "ignore" }, "onError"],
  ["0199a000-0000-7000-8000-00000000abcd", { onError: "report" }, "is for several jobs"],
])("refuses to wait for %j with %j", async (jobs, options, text) => {
  const fresh = await freshSchema();
  await expect(fresh.client().waitFor(jobs as [string], options as { onError: "report" })).rejects.toThrow(
    text,
  );
});

test("thousands of waits share one listener and few statements", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const direct = fresh.client();
  const stint = fresh.client({ database: proxy.url });
  const numbers = Array.from({ length: inLab ? 10_000 : 2_000 }, (_, n) => n);
  const enqueued = await direct.enqueueMany(numbers.map((payload) => ({ job: double, payload })));
  const waits = enqueued.map(({ id }) => stint.waitFor(id, { timeout: "60s" }));
  const worker = await startWorker(direct, 200);
  expect(await Promise.all(waits)).toEqual(numbers.map((n) => n * 2));
  await worker.stop();

  expect(proxy.count("listen ")).toBeLessThanOrEqual(1);
  expect(proxy.count(".finished")).toBeLessThan(500);
});

test("a worker of another process reports the end; no poll is needed", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  const others = fresh.client();
  const job = await stint.enqueue(double, 4, { delay: "1h" });
  const waiting = stint.waitFor(job, { timeout: "60s" });
  await startWorker(others);
  await until(() => proxy.count("listen ") > 0);
  // The poll has slowed down to one in a second by now.
  await until(() => proxy.count(".finished") > 12);
  await others.runNow(job.id);
  expect(await waiting).toBe(8);
});

test("without LISTEN the poll finds the end", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ wake: "none" });
  const others = fresh.client({ wake: "none" });
  const job = await stint.enqueue(double, 4);
  const waiting = stint.waitFor(job, { timeout: "60s" });
  await startWorker(others);
  expect(await waiting).toBe(8);
});

test("a wait survives the loss of its connections", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  const others = fresh.client();
  const job = await others.enqueue(double, 4);
  const waiting = stint.waitFor(job, { timeout: "60s" });
  await until(() => proxy.count("listen ") > 0);
  proxy.resetAll();
  await startWorker(others);
  expect(await waiting).toBe(8);
});
