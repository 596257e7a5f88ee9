import { expect, test } from "vitest";
import { defineJob, typed } from "../define.ts";
import { handle } from "./handle.ts";
import { InvalidOptionError, RateLimitedError } from "../errors.ts";
import { resolveWorkerOptions, type WorkerOptions } from "./options.ts";

const job = defineJob("note", { payload: typed<number>() });

test.each<[unknown, string]>([
  [[async () => undefined], "worker.handlers[0]: must be made by handle(job, fn), got a function"],
  [[job], "worker.handlers[0]: must be made by handle(job, fn), got { kind: "],
  [[undefined], "worker.handlers[0]: must be made by handle(job, fn), got undefined"],
  [() => undefined, "worker.handlers: must be an array of handlers, got a function"],
  [[], "worker.handlers: must have at least one handler"],
])("handlers %j are refused", (handlers, message) => {
  const options = { pools: { default: 1 }, handlers } as WorkerOptions;
  expect(() => resolveWorkerOptions(options)).toThrow(InvalidOptionError);
  expect(() => resolveWorkerOptions(options)).toThrow(message);
});

test.each<[WorkerOptions["prefetch"], number]>([
  [undefined, 1_000],
  ["5s", 5_000],
  [false, 0],
])("prefetch %j lets a claimed job wait %i ms for a slot", (prefetch, prefetchMs) => {
  const handlers = [handle(job, () => undefined)];
  const options = { pools: { default: 1 }, handlers, ...(prefetch === undefined ? {} : { prefetch }) };
  expect(resolveWorkerOptions(options)).toMatchObject({ prefetchMs });
});

test("prefetch true is refused", () => {
  const options = { pools: { default: 1 }, handlers: [handle(job, () => undefined)], prefetch: true };
  expect(() => resolveWorkerOptions(options as unknown as WorkerOptions)).toThrow("worker.prefetch");
});

test.each([undefined, "slow down", {}, { retryAfter: undefined }])(
  "a RateLimitedError made of %j throws with the accepted values",
  (init) => {
    expect(() => new RateLimitedError(init as { retryAfter: string })).toThrow(InvalidOptionError);
    expect(() => new RateLimitedError(init as { retryAfter: string })).toThrow("takes { retryAfter }");
  },
);

test.each<[unknown, string]>([
  [{ "": 1 }, "worker.pools.: must be 1 to 128 characters from A-Z, a-z, 0-9 and . _ : / -"],
  [{ "a b-*": 1 }, "worker.pools.a b-*: must be a pattern of 1 to 128 characters"],
  [{ "a-**": 1 }, "worker.pools.a-**: must not contain **"],
  [{ a: { queues: ["x-*", "x-*"], slots: 1 } }, 'worker.pools.a: serves pattern "x-*", which another pool'],
  [{ a: { queues: [], slots: 1 } }, "worker.pools.a.queues: must be an array of at least one queue"],
  [{ a: { queues: "x", slots: 1 } }, "worker.pools.a.queues: must be an array of at least one queue"],
  [{ a: { queue: ["x"], slots: 1 } }, 'did you mean "queues"?'],
  [{ "other-*": 1 }, 'worker.pools: must serve queue "default"'],
  [
    { a: { queues: Array.from({ length: 20_001 }, (_, n) => `q${n}`), slots: 1 } },
    'worker.pools: must list at most 20,000 queues, got 20001; use a pattern such as "tenant-*"',
  ],
  [
    { a: { queues: Array.from({ length: 101 }, (_, n) => `q${n}-*`), slots: 1 } },
    "worker.pools: must have at most 100 patterns, got 101",
  ],
])("pools %# are refused", (pools, message) => {
  const options = { pools, handlers: [handle(job, () => undefined)] } as WorkerOptions;
  expect(() => resolveWorkerOptions(options)).toThrow(InvalidOptionError);
  expect(() => resolveWorkerOptions(options)).toThrow(message);
});

test("a pattern serves the queue of a kind that it matches", () => {
  const options = { pools: { "def*": 2 }, handlers: [handle(job, () => undefined)] };

  expect(resolveWorkerOptions(options).pools).toEqual([{ name: "def*", queues: ["def*"], slots: 2 }]);
});
