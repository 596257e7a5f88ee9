import { expect, test } from "vitest";
import {
  defineDependency,
  defineJob,
  handle,
  InvalidOptionError,
  InvalidPayloadError,
  typed,
  type DependencyOptions,
} from "#stint/index.js";
import { sharedSchema } from "../support/fresh.ts";

const fresh = sharedSchema();
const payload = typed<{ tokens: number }>();

test.each<[unknown, RegExp]>([
  [{ concurrency: 0 }, /concurrency: must be an integer from 1/],
  [{ concurrency: Number.NaN }, /concurrency/],
  [{ concurrency: -3 }, /concurrency/],
  [{ concurrency: null }, /concurrency/],
  [{ concurrency: { max: 5, min: 6 } }, /concurrency\.min: must be an integer from 1 to 5/],
  [{ concurrency: { max: 5, recover: "0s" } }, /recover/],
  [{ concurrency: { max: 5, mim: 1 } }, /did you mean "min"/],
  [{ concurency: 5 }, /did you mean "concurrency"/],
  [{ rate: { limit: 0, per: "1m" } }, /rate\.limit/],
  [{ rate: { limit: -1, per: "1m" } }, /rate\.limit/],
  [{ rate: { limit: Infinity, per: "1m" } }, /rate\.limit/],
  [{ rate: { limit: 1.5, per: "1m" } }, /rate\.limit/],
  [{ rate: { limit: 60, per: "0s" } }, /rate\.per/],
  [{ rate: { limit: 60, per: "1 minute ago" } }, /rate\.per/],
  [{ rate: { limit: 60, per: "1m", burst: 0 } }, /rate\.burst/],
  [{ rate: { limit: 60, per: "1m", bursts: 1 } }, /did you mean "burst"/],
  [{ rate: 60 }, /rate: must be an object/],
  [{ quota: { limit: 0, per: "day" } }, /quota\.limit/],
  [{ quota: { limit: 5, per: "days" } }, /did you mean "day"/],
  [{ quota: { limit: 5, per: "day", zone: "Mars/Base" } }, /quota\.zone/],
  [{ quota: { limit: 5, per: "day", zone: "Europe/Berln" } }, /did you mean "Europe\/Berlin"/],
  [7, /must be an object/],
])("a dependency that cannot work is refused where it is declared: case %#", (options, message) => {
  const define = (): unknown => defineDependency("api", options as DependencyOptions);
  expect(define).toThrow(InvalidOptionError);
  expect(define).toThrow(message);
});

test.each(["", "a b", "x".repeat(117), "*", 7, null])("a dependency cannot be called %j", (name) => {
  expect(() => defineDependency(name as string, {})).toThrow(InvalidOptionError);
});

test.each<[unknown, RegExp]>([
  ["api", /array/],
  [[7], /uses\[0\]/],
  [[null], /uses\[0\]/],
  [[{}], /uses\[0\]\.dependency/],
  [[{ dependency: "api", cost: 5 }], /cost: must be a function/],
  [[{ dependency: "api", costs: () => 1 }], /did you mean "cost"/],
  [["api", { dependency: "api" }], /a second time/],
  [Array.from({ length: 10_000 }, (_, n) => `api-${n}`), /at most 8/],
])("uses that cannot work are refused where they are declared: case %#", (uses, message) => {
  const define = (): unknown => defineJob("call", { payload, uses: uses as string[] });
  expect(define).toThrow(InvalidOptionError);
  expect(define).toThrow(message);
});

test("a job that costs more than its dependency can ever give is refused", async () => {
  const stint = fresh().client();
  const api = defineDependency("costly", {
    rate: { limit: 100, per: "1s", burst: 10 },
    quota: { limit: 8, per: "day" },
  });
  const call = defineJob("costly", {
    payload: typed<{ tokens: unknown }>(),
    uses: [{ dependency: api, cost: ({ tokens }) => tokens as number }],
  });
  for (const tokens of [Number.NaN, -1, 1.5, "3", null, undefined, 2 ** 60])
    await expect(stint.enqueue(call, { tokens })).rejects.toThrow(/which must be a whole number from 0/);
  await expect(stint.enqueue(call, { tokens: 11 })).rejects.toThrow(InvalidPayloadError);
  await expect(stint.enqueue(call, { tokens: 11 })).rejects.toThrow(
    /costs 11 of "costly", more than its burst of 10/,
  );
  await expect(stint.enqueue(call, { tokens: 9 })).rejects.toThrow(/more than its quota of 8/);

  expect(await fresh().sql(`select id from stint.job where kind = 'costly'`)).toEqual([]);
});

test("a cost is checked the same where the dependency is used by its name", async () => {
  const api = defineDependency("named", { rate: { limit: 100, per: "1s", burst: 10 } });
  const stint = fresh().client({ dependencies: [api] });
  const call = defineJob("by-name", {
    payload: typed<number>(),
    uses: [{ dependency: "named", cost: (tokens) => tokens }],
  });
  await expect(stint.enqueue(call, 11)).rejects.toThrow(/more than its burst of 10/);
});

test("a worker whose kind uses an unknown dependency does not start", async () => {
  const openai = defineDependency("openai", { concurrency: 3 });
  const stint = fresh().client({ dependencies: [openai] });
  const call = defineJob("misspelt", { payload, uses: ["openia"] });
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handle(call, () => undefined)] });

  await expect(worker.start()).rejects.toThrow(
    /defineJob\("misspelt"\)\.uses: names "openia", which is not declared; did you mean "openai"\?/,
  );
});

test("two declarations of one dependency that differ do not start a worker", async () => {
  const stint = fresh().client();
  const jobs = [2, 3].map((concurrency) =>
    defineJob(`differs-${concurrency}`, { payload, uses: [defineDependency("twice", { concurrency })] }),
  );
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: jobs.map((job) => handle(job, () => undefined)),
  });

  await expect(worker.start()).rejects.toThrow(/declares "twice" twice with different settings/);
});

test("a live change that cannot work changes nothing, in TypeScript and in SQL", async () => {
  const { dependencies } = fresh().client();
  const reason = { reason: "x" };
  await dependencies.set("kept", { concurrency: 2 }, reason);
  for (const change of [{ concurrency: 0 }, { rate: { limit: 1, per: 0 } }, { speed: 1 }, 7])
    await expect(dependencies.set("kept", change as never, reason)).rejects.toThrow(InvalidOptionError);
  await expect(dependencies.set("a b", {}, reason)).rejects.toThrow(InvalidOptionError);
  await expect(dependencies.set("kept", {}, {} as never)).rejects.toThrow(/reason/);
  for (const [name, change] of [
    ["kept", { concurrency: { max: 0, min: 1, recoverMs: 1 } }],
    ["kept", { concurrency: { max: 2, min: 3, recoverMs: 1 } }],
    ["kept", { concurrency: { max: 2 } }],
    ["kept", { rate: { limit: 1.5, perMs: 1, burst: 1 } }],
    ["kept", { rate: { limit: "1", perMs: 1, burst: 1 } }],
    ["kept", '{"rate": {"limit": 1.0, "perMs": 1, "burst": 1}}'],
    ["kept", '{"concurrency": {"max": 2.0, "min": 1, "recoverMs": 1}}'],
    ["kept", { quota: { limit: 1, per: "year", zone: "UTC" } }],
    ["kept", { quota: { limit: 1, per: "day", zone: "nowhere" } }],
    ["kept", { speed: 1 }],
    ["kept", [1]],
    ["a b", {}],
    [null, {}],
  ] as const)
    await expect(
      fresh().sql(`select stint.set_dependency($1, $2::text::jsonb, 'x')`, [
        name,
        typeof change === "string" ? change : JSON.stringify(change),
      ]),
    ).rejects.toThrow(/stint: dependency/);
  await expect(fresh().sql(`select stint.set_dependency('kept', '{}', null)`)).rejects.toThrow(/reason/);

  expect(await dependencies.get("kept")).toMatchObject({
    settings: { concurrency: { max: 2, min: 1, recoverMs: 10_000 } },
    effectiveConcurrency: 2,
  });
});
