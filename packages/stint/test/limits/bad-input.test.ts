import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, typed, type LimitOptions } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { sharedSchema } from "../support/fresh.ts";

const fresh = sharedSchema();
const key = ({ account }: { account: string }): string => account;
const define = (limits: unknown, order?: unknown): unknown =>
  defineJob("charge", {
    payload: typed<{ account: string }>(),
    limits: limits as LimitOptions<{ account: string }>[],
    ...(order === undefined ? {} : { order: order as { key: typeof key } }),
  });

test.each<[unknown, RegExp]>([
  [[{ max: 0 }], /max: must be an integer from 1/],
  [[{ max: -1 }], /max/],
  [[{ max: Number.NaN }], /max/],
  [[{ max: Infinity }], /max/],
  [[{ max: 1.5 }], /max/],
  [[{ max: "2" }], /max/],
  [[{}], /max/],
  [[{ max: 1_000_001 }], /max/],
  [[{ max: 1, key: "account" }], /key/],
  [[{ max: 1, kee: key }], /did you mean/],
  [[{ max: 1, by: "tenants" }], /by/],
  [[{ max: 1, by: "queue", key }], /by/],
  [[{ max: 1, name: "a b" }], /name/],
  [[{ max: 1 }, { max: 2 }], /a second time/],
  [{ max: 1 }, /array/],
  [Array.from({ length: 10_000 }, () => ({ max: 1, key })), /at most 16/],
])("a limit that cannot work is refused where it is declared: case %#", (limits, message) => {
  expect(() => define(limits)).toThrow(InvalidOptionError);
  expect(() => define(limits)).toThrow(message);
});

test.each([{}, { key: "account" }, { key, onFailure: "skip" }, { key, onfailure: "pass" }])(
  "an order that cannot work is refused where it is declared: case %#",
  (order) => {
    expect(() => define([], order)).toThrow(InvalidOptionError);
  },
);

test("a key that is no short text is refused, and nothing is enqueued", async () => {
  const stint = fresh().client();
  const charge = defineJob("hostile", {
    payload: typed<{ value: unknown }>(),
    limits: [{ max: 1, key: ({ value }) => value as string }],
  });
  for (const value of [null, 7, "", "x".repeat(513), "a\0b", { toString: () => "x" }])
    await expect(stint.enqueue(charge, { value })).rejects.toThrow(/limits\[0\]\.key/);
  // Any other text is a key, whatever it looks like.
  const texts = ["=", "a=b=c", "'; drop table stint.job; --", "😀", "%", "*"];
  for (const value of texts) await stint.enqueue(charge, { value });

  const rows = await fresh().sql<{ key: string }>(
    `select limits[1] as key from stint.job where kind = 'hostile' order by id`,
  );
  expect(rows.map(({ key: stored }) => stored)).toEqual(texts.map((text) => `kind:hostile#1=${text}`));
});

test("a live change that cannot work is refused, in TypeScript and in SQL", async () => {
  const { limits } = fresh().client();
  const reason = { reason: "x" };
  for (const max of [0, -1, Number.NaN, 1.5, 1_000_001])
    await expect(limits.set("kind:a", max, reason)).rejects.toThrow(InvalidOptionError);
  for (const name of ["", "a", "kind:", "kind:a b", "order:a=1", "kind:a=", "x".repeat(1_000)])
    await expect(limits.set(name, 1, reason)).rejects.toThrow(InvalidOptionError);
  await expect(limits.set("kind:a", 1, {} as never)).rejects.toThrow(/reason/);
  await expect(limits.pass("kind:a", reason)).rejects.toThrow(/ordered key/);
  for (const [name, max] of [
    ["kind:a", 0],
    ["order:a=1", 1],
    ["nonsense", 1],
    [null, 1],
  ])
    await expect(fresh().sql(`select stint.set_limit($1, $2, 'x')`, [name, max])).rejects.toThrow(
      /stint: limit/,
    );

  expect(await limits.list()).toEqual([]);
});

test("a live change in a serializable transaction is refused", async () => {
  const client = await adminClient(fresh().url);
  try {
    await client.query("begin isolation level serializable");
    await expect(client.query(`select "${fresh().schema}".set_limit('kind:a', 1, 'x')`)).rejects.toThrow(
      /isolation level serializable/,
    );
  } finally {
    await client.end();
  }
});

test("keys that cannot work are refused by stint.enqueue, which enqueues nothing", async () => {
  const enqueue = async (options: unknown): Promise<unknown> =>
    await fresh().sql(`select stint.enqueue('bad', '{}', $1::text::jsonb)`, [
      JSON.stringify({ queue: "q", ...(options as object) }),
    ]);
  for (const limits of ["key:a=1", [7], ["a"], ["key:a="], ["order:a=1"], [null], { a: 1 }])
    await expect(enqueue({ limits })).rejects.toThrow(/limits must be/);
  await expect(enqueue({ limits: Array.from({ length: 10_000 }, (_, n) => `key:a=${n}`) })).rejects.toThrow(
    /at most 16/,
  );
  for (const order of [7, "a", "key:a=1", "order:a", "order:a="])
    await expect(enqueue({ order })).rejects.toThrow(/order must be/);
  await enqueue({ limits: ["key:a=1"], order: "order:a=1" });

  expect(await fresh().sql(`select limits from stint.job where kind = 'bad'`)).toEqual([
    { limits: ["order:a=1", "key:a=1"] },
  ]);
});

test("two kinds that declare one limit with different values cannot start a worker", async () => {
  const stint = fresh().client();
  const jobs = [2, 3].map((max) =>
    defineJob(`shares-${max}`, { payload: typed<null>(), limits: [{ name: "gpu", max }] }),
  );
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: jobs.map((job) => handle(job, () => undefined)),
  });

  await expect(worker.start()).rejects.toThrow(
    /declares key:gpu with max 3, but shares-2 declares it with max 2/,
  );
});
