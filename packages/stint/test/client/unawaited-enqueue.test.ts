import { drizzle as drizzleOnPg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOnPostgresJs } from "drizzle-orm/postgres-js";
import { Kysely, PostgresDialect } from "kysely";
import { Client, Pool } from "pg";
import postgres from "postgres";
import { expect, onTestFinished, test } from "vitest";
import {
  defineJob,
  entry,
  InvalidOptionError,
  typed,
  type Logger,
  type TransactionLike,
} from "#stint/index.js";
import { silentLogger } from "#stint/index.js";
import type { StandardSchema } from "#stint/model/standard-schema.js";
import type { Telemetry } from "#stint/model/telemetry.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { clients, onPg } from "../support/transactions.ts";

const note = defineJob("note", { payload: typed<{ text: string }>() });

/** Lets a test decide when its payloads are checked. */
function slowSchema(until: Promise<unknown>): StandardSchema<{ text: string }> {
  return {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: async (value) => {
        await until;
        return { value: value as { text: string } };
      },
    },
  };
}

async function jobCount(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ count: string }>("select count(*) from stint.jobs");
  return Number(row!.count);
}

const refusal = new Error("the business row is refused");

test.each(clients)("with %s an enqueue that is not awaited is rolled back", async (_, inTransaction) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const left: Promise<unknown>[] = [];
  const done = inTransaction(fresh.url, async (tx) => {
    left.push(stint.in(tx).enqueue(note, { text: "one" }));
    left.push(stint.in(tx).enqueue(note, { text: "two" }, { dedupe: { key: "two" } }));
    left.push(stint.in(tx).enqueueMany([entry(note, { text: "three" }), entry(note, { text: "four" })]));
    for (const one of left) one.catch(() => undefined);
    throw refusal;
  });
  await expect(done).rejects.toBe(refusal);
  await Promise.allSettled(left);
  expect(await jobCount(fresh)).toBe(0);
});

test.each(clients)("with %s an enqueue that is not awaited is committed", async (_, inTransaction) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const left: Promise<unknown>[] = [];
  await inTransaction(fresh.url, async (tx) => {
    left.push(stint.in(tx).enqueue(note, { text: "one" }));
  });
  await Promise.all(left);
  expect(await jobCount(fresh)).toBe(1);
});

test.each(clients)("with %s a transaction that has ended is refused", async (name) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  for (const usedBefore of [false, true]) {
    const kept: TransactionLike[] = [];
    await keepOpen(name, fresh.url, async (begin) => {
      await begin(async (tx) => {
        kept.push(tx);
        if (usedBefore) await stint.in(tx).enqueue(note, { text: "in time" });
      });
      const late = async (): Promise<unknown> => await stint.in(kept[0]!).enqueue(note, { text: "late" });
      await expect(late()).rejects.toThrow(InvalidOptionError);
      await expect(late()).rejects.toThrow(/ended|no transaction/);
    });
    expect(await jobCount(fresh)).toBe(usedBefore ? 1 : 0);
  }
});

type Begin = (work: (tx: TransactionLike) => Promise<void>) => Promise<void>;

/** Transactions of one client on one connection, which stays open after them. */
async function keepOpen(name: string, url: string, work: (begin: Begin) => Promise<void>): Promise<void> {
  if (name.includes("postgres.js")) {
    const sql = postgres(url, { max: 1, onnotice: () => undefined });
    const db = drizzleOnPostgresJs({ client: sql });
    await work(async (inside) => {
      if (name.startsWith("Drizzle")) await db.transaction((tx) => inside(tx));
      else await sql.begin((tx) => inside(tx));
    });
    await sql.end();
    return;
  }
  const pool = new Pool({ connectionString: url, max: 1 });
  const db = drizzleOnPg({ client: pool });
  const kysely = new Kysely({ dialect: new PostgresDialect({ pool }) });
  await work(async (inside) => {
    if (name.startsWith("Drizzle")) return await db.transaction((tx) => inside(tx));
    if (name.startsWith("Kysely")) return await kysely.transaction().execute((tx) => inside(tx));
    const client = await pool.connect();
    const adapter = { query: (text: string, values: unknown[]) => client.query(text, values) };
    try {
      await onPg(client, () => inside(name.startsWith("an adapter") ? adapter : client));
    } finally {
      client.release();
    }
  });
  await pool.end();
}

test.each(["postgres.js", "Drizzle on postgres.js", "Drizzle on pg", "Kysely"])(
  "with %s a transaction used after its end writes in no other",
  async (name) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await keepOpen(name, fresh.url, async (begin) => {
      const kept: TransactionLike[] = [];
      await begin(async (tx) => {
        kept.push(tx);
        await stint.in(tx).enqueue(note, { text: "first" });
      });
      await begin(async (tx) => {
        await stint.in(tx).enqueue(note, { text: "second" });
        const late = async (): Promise<unknown> => await stint.in(kept[0]!).enqueue(note, { text: "late" });
        await expect(late()).rejects.toThrow(InvalidOptionError);
        // The transaction it was sent to by mistake is none the worse.
        await stint.in(tx).enqueue(note, { text: "third" });
      });
    });
    expect(await jobCount(fresh)).toBe(3);
  },
);

test.each(clients)(
  "with %s an asynchronous schema never writes after a rollback",
  async (_, inTransaction) => {
    const fresh = await freshSchema();
    const open = gate();
    const slow = defineJob("slow", { payload: slowSchema(open.opened) });
    const errors: unknown[] = [];
    const logger: Logger = { ...silentLogger, error: (fields) => errors.push(fields) };
    const stint = fresh.client({ logger });
    const done = inTransaction(fresh.url, async (tx) => {
      // Nothing handles its rejection: it must not count as unhandled.
      void stint.in(tx).enqueue(slow, { text: "late" });
      throw refusal;
    });
    await expect(done).rejects.toBe(refusal);
    open.open();
    await stint.close();
    expect(await jobCount(fresh)).toBe(0);
  },
);

test.each(clients)("with %s an awaited asynchronous schema works", async (_, inTransaction) => {
  const fresh = await freshSchema();
  const slow = defineJob("slow", { payload: slowSchema(Promise.resolve()) });
  const stint = fresh.client();
  await inTransaction(fresh.url, async (tx) => {
    await stint.in(tx).enqueue(slow, { text: "one" });
    await Promise.all([
      stint.in(tx).enqueue(slow, { text: "two" }),
      stint.in(tx).enqueue(note, { text: "three" }),
      stint.in(tx).enqueueMany([entry(slow, { text: "four" }), entry(note, { text: "five" })]),
      stint.in(tx).enqueue(note, { text: "six" }, { dedupe: { key: "six" } }),
    ]);
  });
  expect(await jobCount(fresh)).toBe(6);
});

test("a refused enqueue names the job that was not written, and is logged", async () => {
  const fresh = await freshSchema();
  const open = gate();
  const slow = defineJob("slow", { payload: slowSchema(open.opened) });
  const errors: string[] = [];
  const logger: Logger = { ...silentLogger, error: (_fields, text) => errors.push(text) };
  const stint = fresh.client({ logger });
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  const late = stint.in(client).enqueue(slow, { text: "late" });
  await client.query("commit");
  open.open();
  await expect(late).rejects.toThrow(
    /no transaction was open, or it had ended, when job [0-9a-f-]{36} reached/,
  );
  expect(errors).toEqual(["an enqueue was refused because its transaction was over"]);
  expect(await jobCount(fresh)).toBe(0);
});

test("an unawaited enqueue of a rollback cannot end the process at close", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const pool = new Pool({ connectionString: fresh.url, max: 1 });
  const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
  const done = db.transaction().execute(async (tx) => {
    // The second waits for the connection, and gets it when the client is closed.
    void stint.in(tx).enqueue(note, { text: "one" });
    void stint.in(tx).enqueue(note, { text: "two" });
    throw refusal;
  });
  await expect(done).rejects.toBe(refusal);
  await db.destroy();
  expect(await jobCount(fresh)).toBe(0);
});

test("an enqueue in a handler's transaction is one statement and rolls back with it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const sent: string[] = [];
  await expect(
    fresh.db.transaction(async (tx) => {
      const seen = {
        client: tx.client,
        query: (text: string, values: unknown[]) => (sent.push(text), tx.query(text, values)),
      };
      void stint.in(seen).enqueue(note, { text: "never" });
      throw refusal;
    }),
  ).rejects.toBe(refusal);
  expect(sent).toHaveLength(1);
  expect(await jobCount(fresh)).toBe(0);
});

test("asynchronous telemetry cannot move an enqueue out of its transaction", async () => {
  const fresh = await freshSchema();
  const open = gate();
  const telemetry: Telemetry = {
    enqueue: async (_jobs, send) => {
      await open.opened;
      return await send(undefined);
    },
    claimed: () => undefined,
    attempt: () => ({ traceId: undefined, run: (work) => work(), ended: () => undefined }),
    quietly: (work) => work(),
  };
  const stint = fresh.client({ telemetry });
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  const late = stint.in(client).enqueue(note, { text: "late" });
  await client.query("rollback");
  open.open();
  await expect(late).rejects.toThrow(InvalidOptionError);
  expect(await jobCount(fresh)).toBe(0);
});

test("an enqueue behind a commit in flight is refused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  const committed = client.query("commit");
  await expect(stint.in(client).enqueue(note, { text: "late" })).rejects.toThrow(InvalidOptionError);
  await committed;
  expect(await jobCount(fresh)).toBe(0);
});

test("more jobs than one statement holds are sent at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  const entries = Array.from({ length: 4_100 }, (_, index) => entry(note, { text: `${index}` }));
  for (const end of ["rollback", "commit"]) {
    await client.query("begin");
    const many = stint.in(client).enqueueMany(entries);
    await client.query(end);
    expect((await many).length).toBe(4_100);
    expect(await jobCount(fresh)).toBe(end === "commit" ? 4_100 : 0);
  }
});

test("savepoints and nested transactions keep and drop their own jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const add = (tx: TransactionLike, text: string): Promise<unknown> => stint.in(tx).enqueue(note, { text });
  const fail = async (tx: TransactionLike, text: string): Promise<void> => {
    void add(tx, text);
    throw refusal;
  };
  const ignore = (): undefined => undefined;
  await keepOpen("Drizzle on pg", fresh.url, (begin) =>
    begin(async (tx) => {
      await add(tx, "kept");
      const outer = tx as unknown as {
        transaction: (work: (tx: TransactionLike) => Promise<void>) => Promise<void>;
      };
      await outer.transaction((inner) => fail(inner, "dropped")).catch(ignore);
      await outer.transaction(async (inner) => void (await add(inner, "kept")));
      await add(tx, "kept");
    }),
  );
  await keepOpen("postgres.js", fresh.url, (begin) =>
    begin(async (tx) => {
      await add(tx, "kept");
      const outer = tx as unknown as postgres.TransactionSql;
      await outer.savepoint((inner) => fail(inner, "dropped")).catch(ignore);
      await outer.savepoint((inner) => add(inner, "kept"));
      await add(tx, "kept");
    }),
  );
  const pool = new Pool({ connectionString: fresh.url, max: 1 });
  const trx = await new Kysely({ dialect: new PostgresDialect({ pool }) }).startTransaction().execute();
  await add(trx, "kept");
  const inner = await trx.savepoint("s").execute();
  void add(inner, "dropped");
  await inner.rollbackToSavepoint("s").execute();
  await add(trx, "kept");
  await trx.commit().execute();
  await expect(add(trx, "late")).rejects.toThrow(InvalidOptionError);
  await pool.end();
  const rows = await fresh.sql<{ text: string; count: string }>(
    "select payload ->> 'text' as text, count(*) from stint.jobs group by 1",
  );
  expect(rows).toEqual([{ text: "kept", count: "8" }]);
});
