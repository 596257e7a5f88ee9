import { drizzle as drizzleOnPg } from "drizzle-orm/node-postgres";
import { Kysely, PostgresDialect } from "kysely";
import { Client, Pool } from "pg";
import postgres from "postgres";
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  cancel,
  createStint,
  defineJob,
  handle,
  entry,
  silentLogger,
  snooze,
  typed,
  type Connection,
  type PoolLike,
  type Enqueued,
  type EnqueueOptions,
  type InTransaction,
  type Job,
  type JobDefinition,
  type ManyEntry,
  type PayloadOf,
  type ResultOf,
  type Stint,
  type StintOptions,
} from "#stint/index.js";

// Checked by `npm run types`: every @ts-expect-error below must mark a line that does not compile. What is wrapped in
// `neverRun` only has to compile.
const stint = createStint({ database: "postgres://nobody@127.0.0.1:1/none", logger: silentLogger });
const neverRun = (work: (argument: never) => unknown): unknown => work;

const sendReceipt = defineJob("send-receipt", {
  payload: z.object({ paymentId: z.string(), copies: z.number().optional() }),
  result: z.object({ messageId: z.string() }),
  key: ({ paymentId }) => `receipt:${paymentId}`,
});
const remind = defineJob("remind", {
  payload: z.object({ at: z.string().transform((text) => new Date(text)), times: z.coerce.number() }),
});
const resize = defineJob("resize", {
  payload: typed<{ width: number }>(),
  result: typed<"done" | "skipped">(),
});

test("a payload is typed by its kind, with no generics at the call site", () => {
  neverRun(async () => {
    const enqueued = await stint.enqueue(sendReceipt, { paymentId: "1" });
    expectTypeOf(enqueued.id).toEqualTypeOf<string>();
    expectTypeOf(enqueued.created).toEqualTypeOf<boolean>();

    // @ts-expect-error a wrong type
    await stint.enqueue(sendReceipt, { paymentId: 1 });
    // @ts-expect-error a missing property
    await stint.enqueue(sendReceipt, {});
    // @ts-expect-error a misspelt property
    await stint.enqueue(sendReceipt, { paymentID: "1" });
    // @ts-expect-error a property too many
    await stint.enqueue(sendReceipt, { paymentId: "1", color: "red" });
    // @ts-expect-error no payload
    await stint.enqueue(sendReceipt);
    // @ts-expect-error not a job
    await stint.enqueue({ kind: "send-receipt" }, { paymentId: "1" });
    await stint.enqueue("by-name", { anything: true });
  });
});

test("options are typed, and unknown ones do not compile", () => {
  neverRun(async () => {
    await stint.enqueue(resize, { width: 1 }, { delay: "5m", dedupe: { key: "k", until: "started" } });
    await stint.enqueue(resize, { width: 1 }, { runAt: new Date(), tags: ["a"] as const, meta: { a: 1 } });
    // @ts-expect-error a misspelt option
    await stint.enqueue(resize, { width: 1 }, { prioritty: 1 });
    // @ts-expect-error a date as text
    await stint.enqueue(resize, { width: 1 }, { runAt: "2030-01-01" });
    // @ts-expect-error runAt and delay exclude one another
    await stint.enqueue(resize, { width: 1 }, { runAt: new Date(), delay: "5m" });
    // @ts-expect-error a misspelt option by name
    await stint.enqueue("resize", { width: 1 }, { delai: 1 });
    // @ts-expect-error a misspelt option of a definition
    defineJob("x", { payload: typed<number>(), attempt: 3 });
    // @ts-expect-error a definition needs a payload
    defineJob("x", {});
    // @ts-expect-error a misspelt option of the client
    createStint({ datbase: "postgres://x" });
    // @ts-expect-error replay needs a reason
    await stint.replay("id", {});
    // @ts-expect-error an unknown state
    await stint.list({ state: "finished" });
  });
  expectTypeOf<EnqueueOptions["attempts"]>().toEqualTypeOf<number | undefined>();
});

test("process.env.DATABASE_URL can be passed directly", () => {
  neverRun(() => createStint({ database: process.env["DATABASE_URL"] }));
  expectTypeOf(process.env["DATABASE_URL"]).toExtend<StintOptions["database"]>();
});

test("a database can be given in parts, and unknown parts do not compile", () => {
  neverRun((tls: ConnectionOptions) => createStint({ database: { host: "db", port: 5432, ssl: tls } }));
  neverRun(() => createStint({ database: { connectionString: "postgres://x", ssl: true } }));
  // @ts-expect-error not a part of it
  neverRun(() => createStint({ database: { url: "postgres://x" } }));
  neverRun(() => createStint({ database: new Pool() }));
  // @ts-expect-error a client is no pool
  neverRun(() => createStint({ database: new Client() }));
  expectTypeOf<StintOptions["database"]>().toEqualTypeOf<Connection | PoolLike | undefined>();
});

test("an enqueue takes the schema's input; the handler gets its output", () => {
  neverRun(async () => {
    await stint.enqueue(remind, { at: "2030-01-01", times: "3" });
    // @ts-expect-error the handler's Date is not what is enqueued
    await stint.enqueue(remind, { at: new Date(), times: 3 });
  });
  handle(remind, ({ payload }) => {
    expectTypeOf(payload).toEqualTypeOf<{ at: Date; times: number }>();
  });
  handle(sendReceipt, ({ payload, key, signal }) => {
    expectTypeOf(payload).toEqualTypeOf<{ paymentId: string; copies?: number | undefined }>();
    expectTypeOf(key).toEqualTypeOf<string>();
    expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
    return { messageId: "1" };
  });
  defineJob("keyed", {
    payload: z.object({ id: z.string().transform(Number) }),
    key: ({ id }) => {
      expectTypeOf(id).toEqualTypeOf<string>();
      return id;
    },
  });
});

test("a handler's return value is checked against the result schema", () => {
  handle(resize, () => "done" as const);
  handle(resize, async () => Promise.resolve("skipped" as const));
  handle(resize, () => snooze("5m"));
  handle(resize, () => cancel("not needed"));
  handle(resize, async (context) => await context.complete(async () => Promise.resolve("done" as const)));
  handle(remind, () => undefined);
  handle(remind, async () => {});
  // @ts-expect-error nothing is returned, and a result is declared
  handle(resize, () => {});
  // @ts-expect-error nor by an asynchronous handler
  handle(resize, async () => {});
  // @ts-expect-error nor where complete is called and what it resolves with is not returned
  handle(resize, async (context) => {
    await context.complete(() => "done" as const);
  });
  // @ts-expect-error nor by what complete runs
  handle(resize, async (context) => await context.complete(async () => {}));
  // @ts-expect-error not one of the two words
  handle(resize, () => "failed");
  // @ts-expect-error a number
  handle(resize, async () => Promise.resolve(5));
  // @ts-expect-error the wrong shape
  handle(sendReceipt, () => ({ messageID: "1" }));
  handle(remind, () => ({ anything: "goes without a schema" }));
  // @ts-expect-error complete takes the result, too
  handle(resize, async (context) => context.complete(async () => Promise.resolve(5)));
  expectTypeOf(handle).returns.not.toBeAny();
});

test("the result's type reaches waitFor", () => {
  neverRun(async () => {
    const enqueued = await stint.enqueue(sendReceipt, { paymentId: "1" });
    const result = await stint.waitFor(enqueued);
    expectTypeOf(result).toEqualTypeOf<{ messageId: string }>();
    expectTypeOf(await stint.waitFor(await stint.enqueue(resize, { width: 1 }))).toEqualTypeOf<
      "done" | "skipped"
    >();
    expectTypeOf(await stint.waitFor("id")).toEqualTypeOf<unknown>();
    expectTypeOf(await stint.waitFor(await stint.enqueue("by-name", 1))).toEqualTypeOf<unknown>();
    expectTypeOf(
      await stint.waitFor(await stint.enqueue(remind, { at: "", times: 1 }), { timeout: "5s" }),
    ).toEqualTypeOf<unknown>();
  });
});

test("get returns a job typed by the enqueued value", () => {
  neverRun(async () => {
    const job = await stint.get(await stint.enqueue(sendReceipt, { paymentId: "1" }));
    expectTypeOf(job!.payload).toEqualTypeOf<{ paymentId: string; copies?: number | undefined }>();
    expectTypeOf(job!.result).toEqualTypeOf<{ messageId: string } | null>();
    expectTypeOf((await stint.get("id"))!.payload).toEqualTypeOf<unknown>();
    // @ts-expect-error neither a job nor an id
    await stint.get({ kind: "send-receipt" });
  });
});

test("PayloadOf and ResultOf give the types of a kind or of an enqueued job", () => {
  expectTypeOf<PayloadOf<typeof resize>>().toEqualTypeOf<{ width: number }>();
  expectTypeOf<PayloadOf<typeof remind>>().toEqualTypeOf<{ at: string; times: unknown }>();
  expectTypeOf<ResultOf<typeof sendReceipt>>().toEqualTypeOf<{ messageId: string }>();
  expectTypeOf<ResultOf<Enqueued<NonNullable<(typeof resize)["types"]>>>>().toEqualTypeOf<
    "done" | "skipped"
  >();
});

test("entries of enqueueMany are checked by their own kinds", () => {
  neverRun(async () => {
    const results = await stint.enqueueMany([
      entry(sendReceipt, { paymentId: "1" }),
      entry(resize, { width: 1 }, { priority: 1 }),
    ]);
    expectTypeOf(results).toEqualTypeOf<Enqueued[]>();
    // @ts-expect-error the payload of another kind
    entry(sendReceipt, { width: 1 });
    // @ts-expect-error a misspelt option
    entry(resize, { width: 1 }, { prio: 1 });
    // @ts-expect-error a definition is not an entry
    await stint.enqueueMany([sendReceipt]);
    const report = await stint.enqueueMany([], { onError: "report" });
    expectTypeOf(report).toEqualTypeOf<(Enqueued | Error)[]>();
  });
  expectTypeOf(entry).returns.toEqualTypeOf<ManyEntry>();
});

test("in(tx) takes transactions; their clients and pools do not compile", () => {
  neverRun(async () => {
    const pool = new Pool();
    const sql = postgres();
    const kysely = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) });
    stint.in(new Client());
    stint.in(await pool.connect());
    await sql.begin(async (tx) => stint.in(tx).enqueue(resize, { width: 1 }));
    await sql.begin(async (tx) =>
      tx.savepoint(async (inner) => stint.in(inner).enqueue(resize, { width: 1 })),
    );
    await drizzleOnPg({ client: pool }).transaction(async (tx) => stint.in(tx).enqueue(resize, { width: 1 }));
    await kysely.transaction().execute(async (tx) => stint.in(tx).enqueue(resize, { width: 1 }));
    stint.in({ query: async (text, values) => (await pool.query(text, values)).rows });
    handle(resize, async (context) => {
      return await context.complete(async (tx) => {
        await stint.in(tx).enqueue(resize, { width: 1 });
        return "done" as const;
      });
    });
    // @ts-expect-error a pool
    stint.in(pool);
    // @ts-expect-error postgres.js itself
    stint.in(sql);
    // @ts-expect-error Kysely itself
    stint.in(kysely);
    // @ts-expect-error nothing at all
    stint.in({});
    // @ts-expect-error wrong payloads do not compile there either
    await stint.in(new Client()).enqueue(resize, { width: "1" });
  });
  expectTypeOf<ReturnType<Stint["in"]>>().toEqualTypeOf<InTransaction>();
});

test("a definition of any kind is accepted where any job is", () => {
  const all: JobDefinition[] = [sendReceipt, remind, resize];
  createStint({ database: "postgres://nobody@127.0.0.1:1/none", jobs: all, logger: silentLogger });
  expect(all.map((definition) => definition.kind)).toEqual(["send-receipt", "remind", "resize"]);
});

test("no type of the API is any", () => {
  expectTypeOf<Stint>().not.toBeAny();
  expectTypeOf<Job["payload"]>().toEqualTypeOf<unknown>();
  expectTypeOf<Job["result"]>().toEqualTypeOf<unknown>();
  expectTypeOf<Awaited<ReturnType<Stint["get"]>>>().toEqualTypeOf<Job | undefined>();
  expectTypeOf<Awaited<ReturnType<Stint["list"]>>>().not.toBeAny();
  expectTypeOf<Awaited<ReturnType<Stint["queues"]>>[number]>().not.toBeAny();
  expectTypeOf<Awaited<ReturnType<Stint["workers"]>>[number]>().not.toBeAny();
  expectTypeOf<Awaited<ReturnType<Stint["waitFor"]>>>().toEqualTypeOf<unknown>();
  expectTypeOf<ReturnType<Stint["worker"]>>().not.toBeAny();
  expectTypeOf(defineJob).returns.not.toBeAny();
  expectTypeOf(typed).returns.not.toBeAny();
});

test("no public signature has more than two type parameters", () => {
  const dist = new URL("../../dist/", import.meta.url);
  const index = readFileSync(new URL("index.d.ts", dist), "utf8");
  const files = [...index.matchAll(/from "(\.\/[^"]+)"/g)].map((match) =>
    match[1]!.replace(/\.ts$/, ".d.ts").replace(/\.js$/, ".d.ts"),
  );
  expect(files.length).toBeGreaterThan(10);
  const generics = files.flatMap((file) => {
    const text = readFileSync(new URL(file, dist), "utf8");
    return [
      ...text.matchAll(
        /\b(?:function|class|interface|type) \w+<([^()]*?)>(?=\s*[({=]|\s+extends|\(\))|^\s+\w+<([^()]*?)>\(/gm,
      ),
    ].map((match) => (match[1] ?? match[2])!);
  });
  expect(generics.length).toBeGreaterThan(5);
  const counts = generics.map((list) => list.split(/,(?![^<]*>)/).length);
  expect(Math.max(...counts)).toBeLessThanOrEqual(2);
});
