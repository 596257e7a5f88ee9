import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, InvalidOptionError, silentLogger, typed, type Logger } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { clients, onPg } from "../support/transactions.ts";
import { until } from "../support/until.ts";

const note = defineJob("note", { payload: typed<number>() });

test.each(clients)("with %s afterCommit calls its hook after a commit only", async (_, inTransaction) => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [note] });
  const calls: string[] = [];

  const rolledBack = inTransaction(fresh.url, async (tx) => {
    await stint.in(tx).afterCommit(() => calls.push("rolled back"));
    throw new Error("no");
  });
  await expect(rolledBack).rejects.toThrow("no");
  let found: unknown;
  await inTransaction(fresh.url, async (tx) => {
    const job = await stint.in(tx).enqueue(note, 1);
    await stint.in(tx).afterCommit(async () => {
      found = await stint.get(job);
      calls.push("first");
    });
    await stint.in(tx).afterCommit(() => calls.push("second"));
    expect(calls).toEqual([]);
  });

  await until(() => calls.includes("second"));
  expect(calls).toEqual(["first", "second"]);
  expect(found).toMatchObject({ state: "ready", payload: 1 });
  await stint.close();
  expect(calls).toEqual(["first", "second"]);
});

test("a hook that throws is logged, and the next ones run", async () => {
  const fresh = await freshSchema();
  const errors: unknown[] = [];
  const logger: Logger = {
    ...silentLogger,
    child: () => logger,
    isLevelEnabled: () => true,
    error: (fields) => errors.push(fields),
  };
  const stint = fresh.client({ logger });
  const client = await connected(fresh.url);
  const calls: number[] = [];
  await onPg(client, async () => {
    await stint.in(client).afterCommit(() => {
      throw new Error("broken hook");
    });
    await stint.in(client).afterCommit(() => calls.push(2));
  });

  await until(() => calls.length > 0);
  expect(errors).toMatchObject([{ err: { message: "broken hook" } }]);
});

test("afterCommit outside a transaction, or with no function, is refused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = await connected(fresh.url);
  const call = (): never => {
    throw new Error("must not be called");
  };
  await expect(stint.in(client).afterCommit(call)).rejects.toThrow(InvalidOptionError);
  // A client whose state cannot be seen: the database finds that no transaction is open.
  const adapter = { query: (text: string, values: unknown[]) => client.query(text, values) };
  await expect(stint.in(adapter).afterCommit(call)).rejects.toThrow("no transaction was open");
  await onPg(client, async () => {
    await expect(stint.in(client).afterCommit("x" as never)).rejects.toThrow("must be a function");
  });
  await stint.close();
});

test("a transaction whose connection dies calls no hook; a later one is not held up", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const lost = await connected(fresh.url);
  lost.on("error", () => undefined);
  const [backend] = (await lost.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
  const calls: string[] = [];
  await lost.query("begin");
  await stint.in(lost).afterCommit(() => calls.push("lost"));
  const admin = await adminClient(fresh.url);
  onTestFinished(() => admin.end());
  await admin.query("select pg_terminate_backend($1)", [backend?.pid]);

  const other = await connected(fresh.url);
  await onPg(other, async () => {
    await stint.in(other).afterCommit(() => calls.push("other"));
  });
  await until(() => calls.includes("other"));
  await stint.close();
  expect(calls).toEqual(["other"]);
});

test("closing the client drops hooks of open transactions with a warning", async () => {
  const fresh = await freshSchema();
  const warnings: unknown[] = [];
  const logger: Logger = {
    ...silentLogger,
    child: () => logger,
    isLevelEnabled: () => true,
    warn: (fields) => warnings.push(fields),
  };
  const stint = fresh.client({ logger });
  const client = await connected(fresh.url);
  const calls: string[] = [];
  await client.query("begin");
  await stint.in(client).afterCommit(() => calls.push("late"));
  await stint.close();
  await client.query("commit");
  expect(warnings).toEqual([{ transactions: 1 }]);
  expect(calls).toEqual([]);
});

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return client;
}
