import { getEventListeners } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { InvalidOptionError, JobFailedError, WaitTimeoutError } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { double, startWorker } from "./double.ts";

test("resolves with the result of a job that ends later or has already ended", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(double, 21);
  const waiting = stint.waitFor(enqueued, { timeout: "60s" });
  const worker = await startWorker(stint);
  expect(await waiting).toBe(42);
  expect(await stint.waitFor(enqueued)).toBe(42);
  expect(await stint.waitFor(enqueued.id.toUpperCase(), { timeout: "60s" })).toBe(42);
  await worker.stop();
});

test("rejects when the job is dead or cancelled, with the reason", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const cancelled = await stint.enqueue(double, 1);
  await stint.cancel(cancelled.id, { reason: "not wanted" });
  const error = await stint.waitFor(cancelled).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(JobFailedError);
  expect(error).toMatchObject({ state: "cancelled", reason: "not wanted", jobId: cancelled.id });

  const worker = await startWorker(stint);
  const dead = await stint.enqueue(double, -1);
  await expect(stint.waitFor(dead, { timeout: "60s" })).rejects.toMatchObject({
    code: "JOB_FAILED",
    state: "dead",
  });
  await worker.stop();
});

test("stops waiting after its timeout and leaves the job alone", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(double, 1);
  const error = await stint.waitFor(enqueued, { timeout: 40 }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WaitTimeoutError);
  expect((error as Error).message).toContain(
    `Job ${enqueued.id} has not ended (or was never committed) after`,
  );
  expect((await stint.get(enqueued.id))!.state).toBe("ready");
});

test("a timeout beyond the limit of Node's timers does not end at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(double, 4);
  const waiting = stint.waitFor(enqueued, { timeout: "60d" });
  const worker = await startWorker(stint);
  expect(await waiting).toBe(8);
  await worker.stop();
});

test("stops waiting when its signal aborts, before or during the wait", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(double, 1);
  const why = new Error("the user went away");
  await expect(stint.waitFor(enqueued, { signal: AbortSignal.abort(why) })).rejects.toBe(why);

  const controller = new AbortController();
  const waiting = stint.waitFor(enqueued, { signal: controller.signal });
  controller.abort(why);
  await expect(waiting).rejects.toBe(why);
});

test("one signal for many waits gets one listener, and Node warns of no leak", async () => {
  const stint = (await freshSchema()).client();
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  const jobs = await Promise.all(Array.from({ length: 15 }, (_, n) => stint.enqueue(double, n)));
  const { signal } = new AbortController();
  const waits = [
    stint.waitFor(jobs),
    stint.waitFor(jobs, { signal }),
    stint.waitFor(jobs, { signal, onError: "report" }),
    Promise.all(jobs.map((job) => stint.waitFor(job, { signal, timeout: "60s" }))),
  ];
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  const worker = await startWorker(stint);
  for (const results of await Promise.all(waits)) expect(results).toEqual(jobs.map((_, n) => n * 2));
  await worker.stop();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  expect(warnings).toEqual([]);
});

test.each([
  ["not-an-id", {}, 'waitFor(job): must be the UUID of a job, got "not-an-id"'],
  [undefined, {}, "waitFor(job): must be the UUID of a job, got undefined"],
  [{}, {}, "waitFor(job): must be the UUID of a job"],
  ["0199a000-0000-7000-8000-00000000abcd", { timeout: "soon" }, "waitFor.timeout: must be a duration"],
  ["0199a000-0000-7000-8000-00000000abcd", { timeot: 5 }, 'did you mean "timeout"?'],
  ["0199a000-0000-7000-8000-00000000abcd", { signal: {} }, "waitFor.signal"],
])("refuses to wait for %j with %j", async (job, options, message) => {
  const fresh = await freshSchema();
  const waiting = fresh.client().waitFor(job as string, options as { timeout: string });
  await expect(waiting).rejects.toThrow(InvalidOptionError);
  await expect(waiting).rejects.toThrow(message);
});

test("500 waiters share their statements, and each gets its own result", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const direct = fresh.client();
  const stint = fresh.client({ database: proxy.url });
  const numbers = Array.from({ length: 500 }, (_, n) => n);
  const enqueued = await Promise.all(numbers.map((n) => direct.enqueue(double, n)));
  const waiting = Promise.all(enqueued.map((one) => stint.waitFor(one, { timeout: "60s" })));
  const worker = await startWorker(direct);
  expect(await waiting).toEqual(numbers.map((n) => n * 2));
  await worker.stop();

  expect(proxy.count(".finished")).toBeGreaterThan(0);
  expect(proxy.count(".finished")).toBeLessThan(50);
});
