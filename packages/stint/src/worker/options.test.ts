import { expect, test } from "vitest";
import { defineJob, typed } from "../define.ts";
import { handle } from "./handler.ts";
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
  "a RateLimitedError made of %j says what it takes",
  (init) => {
    expect(() => new RateLimitedError(init as { retryAfter: string })).toThrow(InvalidOptionError);
    expect(() => new RateLimitedError(init as { retryAfter: string })).toThrow("takes { retryAfter }");
  },
);
