import { expect, test } from "vitest";
import { ConnectionLost } from "#stint/db/db.js";
import { Listener } from "#stint/db/listener.js";
import { PgDb } from "#stint/db/pg.js";
import { statement } from "#stint/db/statement.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { query, testDatabaseUrl } from "../support/database.ts";
import { until } from "../support/until.ts";
import { onTestFinished } from "vitest";

const backend = statement("backend", "select pg_backend_pid() as pid");

function oneConnection({
  deadlineMs = 15_000,
  connectDeadlineMs = 5_000,
  prepare = false,
  connection = testDatabaseUrl(),
} = {}): PgDb {
  const db = new PgDb({
    connection,
    schema: "stint",
    connections: 1,
    transactions: 1,
    applicationName: "stint-test-one",
    prepare,
    deadlineMs,
    connectDeadlineMs,
    onError: () => undefined,
  });
  onTestFinished(async () => await db.close());
  return db;
}

test("a connection to a demoted primary is abandoned, though it responds", async () => {
  const db = oneConnection();
  const [before] = await db.run(backend, []);
  await db.run(statement("demote", "set session characteristics as transaction read only"), []);
  await expect(db.run(statement("write", "create table never (id integer)"), [])).rejects.toMatchObject({
    code: "DATABASE_UNAVAILABLE",
  });

  const [after] = await db.run(backend, []);
  expect(after?.["pid"]).not.toBe(before?.["pid"]);
});

test("a server that freezes right after the login does not block the client", async () => {
  const proxy = await startCutProxy();
  const db = oneConnection({ connection: proxy.url, connectDeadlineMs: 5_000, prepare: true });
  const held = proxy.cutAt("array_nulls", "held");
  await expect(db.run(backend, [])).rejects.toMatchObject({ code: "DATABASE_UNAVAILABLE" });
  await held;

  expect(await db.run(backend, [])).toHaveLength(1);
});

test("a statement that misses its deadline is abandoned with its connection", async () => {
  const db = oneConnection({ deadlineMs: 5_000 });
  await expect(db.run(statement("sleep", "select pg_sleep(30)"), [])).rejects.toThrow(ConnectionLost);

  expect(await db.run(statement("one", "select 1 as one"), [])).toEqual([{ one: 1 }]);
});

test("a response that arrived while the event loop was blocked counts", async () => {
  const db = oneConnection({ deadlineMs: 2_000 });
  await db.run(backend, []);
  const result = db.run(statement("one", "select 1 as one"), []);
  // One turn, so that it is sent; then nothing until long after its deadline.
  await new Promise((resolve) => setImmediate(resolve));
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);

  expect(await result).toEqual([{ one: 1 }]);
});

test("a transaction whose work throws anything leaves no half-open connection", async () => {
  const db = oneConnection({ deadlineMs: 5_000 });
  const work = db.transaction(async (tx) => {
    // Not awaited: the rollback waits behind it, and runs out of time.
    tx.query("select pg_sleep(30)").catch(() => undefined);
    throw new Error("the work's own");
  });
  await expect(work).rejects.toThrow("the work's own");

  const result = await db.transaction(
    async (tx) => (await tx.query("select txid_current_if_assigned() as id")).rows,
  );
  expect(result).toEqual([{ id: null }]);
});

test("a transaction waits for a connection without a limit, in order of arrival", async () => {
  const db = oneConnection({ connectDeadlineMs: 2_000 });
  const order: string[] = [];
  const take = async (name: string, seconds: number): Promise<void> =>
    await db.transaction(async (tx) => {
      await tx.query("select pg_sleep($1)", [seconds]);
      order.push(name);
    });
  await Promise.all([take("first", 2.5), take("second", 0), take("third", 0)]);

  expect(order).toEqual(["first", "second", "third"]);
});

test("a listener that loses its connection reconnects once and stays connected", async () => {
  let listening = 0;
  const hints: string[] = [];
  const listener = new Listener({
    connection: testDatabaseUrl(),
    channel: "stint:listener_test",
    applicationName: "stint-test-listener",
    onHint: (hint) => hints.push(hint),
    onListening: () => (listening += 1),
    onTrouble: () => undefined,
  });
  listener.start();
  onTestFinished(async () => await listener.stop());
  await until(() => listener.listening, { message: "it listens" });
  for (let round = 2; round < 5; round++) {
    await query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'stint-test-listener'",
    );
    await until(() => listening === round && listener.listening, { message: "it listens again" });
    await query("select pg_notify('stint:listener_test', $1)", [`round ${round}`]);
    await until(() => hints.includes(`round ${round}`), { message: "the hint arrives" });
  }

  expect(listening).toBe(4);
});
