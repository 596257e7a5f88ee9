import * as fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  defineJob,
  handle,
  InvalidPayloadError,
  entry,
  typed,
  type HandlerFunction,
  type StandardSchema,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";

const any = defineJob("any", { payload: typed<unknown>(), result: typed<unknown>() });

async function jobCount(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ n: number }>("select count(*)::int as n from stint.jobs");
  return row!.n;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

const cycle: { self?: unknown } = {};
cycle.self = cycle;

const refused: [string, unknown, string][] = [
  ["nothing", undefined, "any: payload is undefined"],
  ["a bigint", { items: [0, { price: 5n }] }, "payload.items[1].price is a bigint"],
  ["a cycle", cycle, "payload.self contains itself"],
  ["a function", { f: () => 1 }, "payload.f is a function"],
  ["a symbol", { s: Symbol("x") }, "payload.s is a symbol"],
  ["NaN", [Number.NaN], "payload[0] is NaN"],
  ["Infinity", { n: -Infinity }, "payload.n is -Infinity"],
  ["NUL in a value", { text: "a\0b" }, "payload.text contains a NUL character"],
  ["NUL in a key", { "a\0b": 1 }, "contains a NUL character"],
  ["half a surrogate pair", { text: "a\ud800b" }, "payload.text contains half of a surrogate pair"],
  ["half a surrogate pair in a key", { "\udc00": 1 }, "half of a surrogate pair"],
  ["a Date", { at: new Date(0) }, "payload.at is a Date; use an ISO string"],
  ["a Map", new Map(), "payload is a Map"],
  ["65 levels", nested(65), "is nested deeper than 64 levels"],
  ["a hole", [1, , 2], "payload[1] is a hole"], // oxlint-disable-line no-sparse-arrays
  ["over a mebibyte", "x".repeat(1_048_575), "1048577 bytes of JSON, over the limit of 1048576"],
  [
    "a getter that throws",
    {
      get x() {
        throw new Error("no");
      },
    },
    "payload.x cannot be read",
  ],
];

test("a payload that JSON would change is refused by path and rule; nothing is written", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const outcomes: unknown[] = [];
  for (const [what, payload] of refused) {
    const error = await stint.enqueue(any, payload).catch((e: unknown) => e);
    const { code, kind } = error as InvalidPayloadError;
    outcomes.push({ what, code, kind, error: String(error) });
  }
  expect(outcomes).toEqual(
    refused.map(([what, , message]) => {
      const error = expect.stringContaining(message) as unknown;
      return { what, code: "INVALID_PAYLOAD", kind: "any", error };
    }),
  );
  expect(await jobCount(fresh)).toBe(0);
});

test("the largest and the deepest allowed payloads are stored unchanged", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  for (const payload of ["x".repeat(1_048_574), nested(64), null, 0, "", [], {}]) {
    const { id } = await stint.enqueue(any, payload);
    expect((await stint.get(id))!.payload).toEqual(payload);
  }
});

test("the size limit can be set", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ maxPayloadBytes: 10 });
  await stint.enqueue(any, "12345678");
  await expect(stint.enqueue(any, "123456789")).rejects.toThrow("over the limit of 10");
  expect(await jobCount(fresh)).toBe(1);
});

test("__proto__, constructor and SQL in a payload are plain data", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const text = `{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"$1":"'; drop table stint.job; --"}`;
  const { id } = await stint.enqueue(any, JSON.parse(text));
  const { payload } = (await stint.get(id))!;

  expect(JSON.stringify(payload)).toContain(`"__proto__":{"polluted":true}`);
  expect(payload).toEqual(JSON.parse(text));
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  expect(await jobCount(fresh)).toBe(1);
});

test("any JSON value reaches the handler unchanged, and returns as the result", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const echo: HandlerFunction<unknown, unknown> = ({ payload }) => ({ echo: payload });
  const worker = stint.worker({ pools: { default: 50 }, signals: false, handlers: [handle(any, echo)] });
  await worker.start();

  // JSON has no negative zero: its text is "0".
  const value = fc
    .jsonValue({ maxDepth: 8, stringUnit: "binary" })
    .map((json) => JSON.parse(JSON.stringify(json)) as unknown);
  await fc.assert(
    fc.asyncProperty(fc.array(value, { minLength: 20, maxLength: 60 }), async (values) => {
      const report = await stint.enqueueMany(
        values.map((one) => entry(any, one)),
        { onError: "report" },
      );
      const results = await Promise.all(
        report.map(async (one) =>
          one instanceof Error ? one : await stint.waitFor(one.id, { timeout: "60s" }),
        ),
      );
      // Text that Postgres cannot hold is the only JSON there is to refuse.
      const refusedOne = expect.any(InvalidPayloadError) as unknown;
      const storable = (one: unknown) => !JSON.stringify(one).includes(String.raw`\u0000`);
      expect(results).toEqual(values.map((one) => (storable(one) ? { echo: one } : refusedOne)));
    }),
    { numRuns: inLab ? 15 : 6 },
  );
  await worker.stop();
});

test("a payload is checked before it is written, and parsed again for the handler", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const remind = defineJob("remind", {
    payload: z.object({ at: z.string().transform((text) => new Date(text)), times: z.number().default(3) }),
    result: z.object({ year: z.number(), times: z.number() }),
  });
  const error = await stint.enqueue(remind, { at: 5 as unknown as string }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(InvalidPayloadError);
  expect(error).toMatchObject({ kind: "remind", path: "payload.at" });
  expect(await jobCount(fresh)).toBe(0);

  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [
      handle(remind, ({ payload }) => ({ year: payload.at.getUTCFullYear(), times: payload.times })),
    ],
  });
  await worker.start();
  const enqueued = await stint.enqueue(remind, { at: "2031-05-06T00:00:00Z" });
  expect((await stint.get(enqueued.id))!.payload).toEqual({ at: "2031-05-06T00:00:00Z" });
  expect(await stint.waitFor(enqueued, { timeout: "60s" })).toEqual({ year: 2031, times: 3 });
  await worker.stop();
});

test("an asynchronous schema is awaited, even with a foreign promise", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const validate = (value: unknown) => ({
    // oxlint-disable-next-line unicorn/no-thenable
    then: (resolve: (result: unknown) => unknown) =>
      Promise.resolve(resolve(value === "good" ? { value } : { issues: [{ message: "not good" }] })),
  });
  const schema = {
    "~standard": { version: 1, vendor: "test", validate },
  } as unknown as StandardSchema<string>;
  const slow = defineJob("slow", { payload: schema });
  await expect(stint.enqueue(slow, "bad")).rejects.toThrow("payload does not fit its schema: not good");

  const later = defineJob("later", {
    payload: z.string().refine(async (text) => Promise.resolve(text === "good")),
  });
  await expect(stint.enqueue(later, "bad")).rejects.toThrow(InvalidPayloadError);
  expect(await jobCount(fresh)).toBe(0);
  await stint.enqueue(slow, "good");
  await stint.enqueue(later, "good");
  expect(await jobCount(fresh)).toBe(2);
});

test("changing a payload after the call does not change the job", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const later = defineJob("later", {
    payload: z.object({ n: z.number() }).refine(async () => Promise.resolve(true)),
  });
  const payload = { n: 1 };
  const enqueued = [stint.enqueue(any, payload), stint.enqueue(later, payload)];
  payload.n = 2;
  for (const { id } of await Promise.all(enqueued)) expect((await stint.get(id))!.payload).toEqual({ n: 1 });
});
