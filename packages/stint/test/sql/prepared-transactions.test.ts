import { afterAll, beforeAll, expect, test } from "vitest";
import { defineJob, entry, handle, typed, type TransactionLike } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { heartbeat, registerWorker } from "#stint/sql/workers.js";
import { adminClient } from "../support/database.ts";
import { sharedSchema, type Fresh } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { startWorker } from "../support/watch.ts";

const note = defineJob("note", { payload: typed<{ text: string }>() });

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({ max_prepared_transactions: "10" });
});
afterAll(async () => {
  await server.remove();
});

const shared = sharedSchema(() => server.url);

async function withListeningWorker(): Promise<Fresh> {
  const fresh = shared();
  await fresh.sql("delete from stint.worker");
  await fresh.sql("delete from stint.job");
  await registerWorker(fresh.db, { id: "w", host: "h", pid: 1, version: "0", pools: {}, kinds: [] });
  await heartbeat(fresh.db, "w", { listening: true });
  return fresh;
}

type Enqueue = (
  fresh: Fresh,
  tx: TransactionLike & { query(text: string): Promise<unknown> },
) => Promise<unknown>;
const enqueues: [string, Enqueue][] = [
  ["stint.in(tx).enqueue", (fresh, tx) => fresh.client().in(tx).enqueue(note, { text: "x" })],
  [
    "stint.in(tx).enqueue with a dedupe key",
    (fresh, tx) =>
      fresh
        .client()
        .in(tx)
        .enqueue(note, { text: "x" }, { dedupe: { key: "k" } }),
  ],
  [
    "stint.in(tx).enqueueMany",
    (fresh, tx) =>
      fresh
        .client()
        .in(tx)
        .enqueueMany([entry(note, { text: "x" })]),
  ],
  [
    "stint.enqueue in SQL",
    (fresh, tx) =>
      tx.query(forSchema(`select stint.enqueue('note', '{}', '{"queue": "default"}')`, fresh.schema)),
  ],
  [
    "stint.enqueue_many in SQL",
    (fresh, tx) =>
      tx.query(
        forSchema(
          `select * from stint.enqueue_many('[{"kind": "note", "payload": 1, "options": {"queue": "default"}}]')`,
          fresh.schema,
        ),
      ),
  ],
];

test.each(enqueues)("%s does not prevent PREPARE TRANSACTION", async (_, enqueue) => {
  const fresh = await withListeningWorker();
  const client = await adminClient(server.url);
  await client.query("begin");
  await enqueue(fresh, client);
  await client.query(`prepare transaction '${fresh.schema}'`);
  await client.query(`commit prepared '${fresh.schema}'`);
  await client.end();
  expect(await fresh.sql("select state::text from stint.jobs")).toEqual([{ state: "ready" }]);
});

test.each([
  ["in TypeScript", (fresh: Fresh) => fresh.client(), undefined],
  ["in SQL", undefined, `select stint.enqueue('note', '{}', '{"queue": "default", "wake": true}')`],
  [
    "in SQL, for one of many",
    undefined,
    `select * from stint.enqueue_many('[{"kind": "note", "payload": 1, "options": {"queue": "default"}},
      {"kind": "note", "payload": 1, "options": {"queue": "default", "wake": true}}]')`,
  ],
] as const)("a wake requested %s is sent, and PREPARE TRANSACTION refuses it", async (_, make, sql) => {
  const fresh = await withListeningWorker();
  const client = await adminClient(server.url);
  await client.query("begin");
  if (make !== undefined) await make(fresh).in(client, { wake: true }).enqueue(note, { text: "x" });
  if (sql !== undefined) await client.query(forSchema(sql, fresh.schema));
  await expect(client.query(`prepare transaction '${fresh.schema}'`)).rejects.toMatchObject({
    code: "0A000",
  });
  await client.end();
});

test("an enqueue outside a transaction wakes workers on any server", async () => {
  const fresh = await withListeningWorker();
  const listener = await adminClient(server.url);
  const received = new Promise<unknown>((resolve) => {
    listener.on("notification", ({ payload }) => resolve(payload));
  });
  await listener.query(`listen "stint:${fresh.schema}"`);
  await fresh.client().enqueue(note, { text: "x" });
  expect(await received).toBe("ready:default");
  await listener.end();
});

test("a job of a prepared transaction is found by polling", async () => {
  const fresh = shared();
  const stint = fresh.client();
  const echo = defineJob("echo", { payload: typed<string>(), result: typed<string>() });
  const { worker } = await startWorker(stint, { handlers: [handle(echo, ({ payload }) => payload)] });
  const client = await adminClient(server.url);
  await client.query("begin");
  const enqueued = await fresh.client().in(client).enqueue(echo, "hello");
  await client.query(`prepare transaction '${fresh.schema}'`);
  await client.query(`commit prepared '${fresh.schema}'`);
  await client.end();
  expect(await stint.waitFor(enqueued)).toBe("hello");
  await worker.stop();
});
