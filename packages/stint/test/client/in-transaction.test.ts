import { drizzle as drizzleOnPg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOnPostgresJs } from "drizzle-orm/postgres-js";
import { Kysely, PostgresDialect } from "kysely";
import { Client, Pool } from "pg";
import postgres from "postgres";
import { expect, test } from "vitest";
import {
  createStint,
  defineJob,
  handle,
  InvalidOptionError,
  entry,
  SchemaVersionError,
  silentLogger,
  TransactionRequiredError,
  typed,
  type TransactionLike,
} from "#stint/index.js";
import { freshSchemaName, testDatabaseUrl } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { clients, onPg } from "../support/transactions.ts";

type Note = { text: string; list?: unknown[] };
const note = defineJob("note", { payload: typed<Note>() });

async function jobCount(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ count: string }>("select count(*) from stint.jobs");
  return Number(row!.count);
}

test.each(clients)(
  "with %s a commit makes the job and a rollback leaves nothing",
  async (_, inTransaction) => {
    const fresh = await freshSchema();
    const stint = fresh.client({ jobs: [note] });
    const payload: Note = { text: `it's "quoted" $1 \\ é 😀`, list: [1, null, { a: 0.5 }] };
    const dedupe = { key: "one", until: "finished" } as const;

    const seen: unknown[] = [];
    await inTransaction(fresh.url, async (tx) => {
      const first = await stint.in(tx).enqueue(note, payload, { tags: ["a", "b"], dedupe });
      expect(await stint.get(first.id)).toBeUndefined();
      seen.push(first);
    });
    const [first] = seen as { id: string }[];
    expect(first).toEqual({ id: first!.id, kind: "note", status: "created", created: true });
    expect(await stint.get(first!.id)).toMatchObject({ payload, tags: ["a", "b"], state: "ready" });

    await inTransaction(fresh.url, async (tx) => {
      expect(await stint.in(tx).enqueue(note, payload, { dedupe })).toMatchObject({
        ...first,
        status: "existing",
        created: false,
      });
      const many = await stint
        .in(tx)
        .enqueueMany([
          entry(note, { text: "second" }),
          entry(note, payload, { dedupe }),
          { job: "note", payload: { text: "third" }, options: { delay: "1h" } },
        ]);
      expect(many.map((one) => one.created)).toEqual([true, false, true]);
      expect(many[1]!.id).toBe(first!.id);
    });
    expect(await jobCount(fresh)).toBe(3);

    const thrown = new Error("the business row is refused");
    const rolledBack = inTransaction(fresh.url, async (tx) => {
      await stint.in(tx).enqueue(note, { text: "never" });
      await stint.in(tx).enqueueMany([entry(note, { text: "nor this" }), entry(note, { text: "nor that" })]);
      throw thrown;
    });
    await expect(rolledBack).rejects.toBe(thrown);
    expect(await jobCount(fresh)).toBe(3);
  },
);

test("a job enqueued in a transaction runs once that has committed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const echo = defineJob("echo", { payload: typed<Note>(), result: typed<Note>() });
  const worker = stint.worker({
    pools: { default: 1 },
    poll: "200ms",
    signals: false,
    handlers: [handle(echo, ({ payload }) => payload)],
  });
  await worker.start();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  await client.query("begin");
  const enqueued = await stint.in(client).enqueue(echo, { text: "hello" });
  await client.query("commit");
  await client.end();

  expect(await stint.waitFor(enqueued, { timeout: "60s" })).toEqual({ text: "hello" });
  await worker.stop();
});

test("an enqueue refused before sending leaves the transaction usable", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  await onPg(client, async () => {
    await expect(stint.in(client).enqueue(note, { text: "\0" })).rejects.toThrow("NUL");
    await stint.in(client).enqueue(note, { text: "fine" });
  });
  await client.end();
  expect(await jobCount(fresh)).toBe(1);
});

test("a kind that requires a transaction is refused outside one and accepted inside", async () => {
  const fresh = await freshSchema();
  const charge = defineJob("charge", { payload: typed<{ cents: number }>(), requiresTransaction: true });
  const stint = fresh.client({ jobs: [charge] });

  for (const attempt of [
    () => stint.enqueue(charge, { cents: 1 }),
    () => stint.enqueue("charge", { cents: 1 }),
    () => stint.enqueueMany([entry(note, { text: "innocent" }), entry(charge, { cents: 1 })]),
  ]) {
    await expect(attempt()).rejects.toThrow(TransactionRequiredError);
    await expect(attempt()).rejects.toThrow(/charge must be enqueued in a transaction.*stint\.in\(tx\)/);
  }
  const [report] = await stint.enqueueMany([entry(charge, { cents: 1 })], { onError: "report" });
  expect(report).toBeInstanceOf(TransactionRequiredError);
  expect(await jobCount(fresh)).toBe(0);

  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  await onPg(client, async () => {
    await stint.in(client).enqueue(charge, { cents: 1 });
    await stint.in(client).enqueueMany([entry(charge, { cents: 2 })]);
  });
  await client.end();
  expect(await jobCount(fresh)).toBe(2);
});

test("anything but a transaction is refused with what to pass, and nothing is written", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const pool = new Pool({ connectionString: fresh.url, max: 1 });
  const sql = postgres(fresh.url, { max: 1 });
  const wrong: [unknown, RegExp][] = [
    [undefined, /no transaction of pg.*\{ query: \(text, values\) => rows \}/],
    [null, /no transaction/],
    [{}, /no transaction/],
    ["begin", /no transaction/],
    [{ query: "select 1" }, /no transaction/],
    [pool, /a pg Pool.*pool\.connect\(\).*stint\.enqueue/],
    [sql, /the postgres\.js client.*sql\.begin/],
    [drizzleOnPg({ client: pool }), /the Drizzle database.*db\.transaction\(/],
    [drizzleOnPostgresJs({ client: sql }), /the Drizzle database.*db\.transaction\(/],
    [new Kysely({ dialect: new PostgresDialect({ pool }) }), /the Kysely instance.*db\.transaction\(\)/],
  ];
  for (const [tx, message] of wrong) {
    expect(() => stint.in(tx as TransactionLike)).toThrow(InvalidOptionError);
    expect(() => stint.in(tx as TransactionLike)).toThrow(message);
  }

  const client = await pool.connect();
  for (const tx of [client, drizzleOnPg({ client })]) {
    await expect(stint.in(tx).enqueue(note, { text: "no begin" })).rejects.toThrow(
      /stint\.in\(tx\): this is a pg client on which no transaction was begun/,
    );
  }
  client.release();
  await pool.end();
  await sql.end();
  expect(await jobCount(fresh)).toBe(0);
});

test("a begin that was sent but not awaited counts as a transaction", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  const begun = client.query("begin");
  await stint.in(client).enqueue(note, { text: "pipelined" });
  await begun;
  await client.query("rollback");
  await client.end();
  expect(await jobCount(fresh)).toBe(0);
});

test("an adapter that returns no rows is refused with the expected shape", async () => {
  const fresh = await freshSchema();
  const tx = { query: () => Promise.resolve({ count: 1 }) };
  await expect(fresh.client().in(tx).enqueue(note, { text: "x" })).rejects.toThrow(
    /must return an array of rows/,
  );
});

test.each(clients)("with %s a missing schema is reported as missing", async (_, inTransaction) => {
  const url = testDatabaseUrl();
  const stint = createStint({ database: url, schema: freshSchemaName(), logger: silentLogger });
  const enqueued = inTransaction(url, async (tx) => {
    await stint.in(tx).enqueue(note, { text: "x" });
  });
  await expect(enqueued).rejects.toThrow(SchemaVersionError);
  await expect(enqueued).rejects.toThrow("npx stint migrate");
  await stint.close();
});
