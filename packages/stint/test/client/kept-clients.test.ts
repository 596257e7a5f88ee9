import { Pool, type PoolClient } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { KeptClients } from "#stint/db/kept-clients.js";
import { query, testDatabaseUrl } from "../support/database.ts";
import { until } from "../support/until.ts";

/** A pool, its kept clients, and how often the pool has lent one. */
function open({ max = 2, now }: { max?: number; now?: () => number } = {}) {
  const pool = new Pool({ connectionString: testDatabaseUrl(), max });
  pool.on("error", () => undefined);
  const kept = now === undefined ? new KeptClients(pool) : new KeptClients(pool, now);
  pool.on("connect", (client) => client.on("error", () => kept.lost(client)));
  let lent = 0;
  pool.on("acquire", () => (lent += 1));
  onTestFinished(async () => {
    kept.close();
    await pool.end();
  });
  const use = async (work: (client: PoolClient) => Promise<unknown>): Promise<void> => {
    const client = kept.take() ?? (await pool.connect());
    await work(client);
    kept.keep(client);
  };
  return { pool, kept, use, lent: () => lent };
}

const select = async (client: PoolClient): Promise<unknown> => await client.query("select 1");

test("statements in a row use one checkout, and unused connections return", async () => {
  const { pool, use, lent } = open();
  for (let n = 0; n < 50; n++) await use(select);
  expect({ lent: lent(), idle: pool.idleCount }).toEqual({ lent: 1, idle: 0 });

  await until(() => pool.idleCount === 1, { message: "the unused connection returns to its pool" });
  await use(select);
  expect(lent()).toBe(2);
});

test("a caller that waits for the pool gets the connection", async () => {
  const { pool, kept, use } = open({ max: 1 });
  const order: string[] = [];
  let waiting: Promise<unknown> | undefined;
  await use(async (client) => {
    waiting = pool.connect().then((other) => {
      order.push("waited");
      other.release();
    });
    await select(client);
    order.push("first");
  });

  expect(kept.take()).toBeUndefined();
  await waiting;
  expect(order).toEqual(["first", "waited"]);
});

test("a connection that is lost while it is kept is not used again", async () => {
  const { pool, kept, use } = open();
  let pid = 0;
  await use(async (client) => {
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    pid = rows[0]?.pid ?? 0;
  });
  await query("select pg_terminate_backend($1)", [pid]);
  await until(() => pool.totalCount === 0, { message: "the pool drops the lost connection" });

  expect(kept.take()).toBeUndefined();
  await use(select);
});

test("a connection in constant use returns to its pool after a minute", async () => {
  let now = 0;
  const { use, lent } = open({ now: () => now });
  await use(select);
  now = 59_000;
  await use(select);
  expect(lent()).toBe(1);
  now = 61_000;
  await use(select);
  await use(select);
  expect(lent()).toBe(2);
});

test("after its close it keeps no connection", async () => {
  const { pool, kept, use } = open();
  await use(async () => {
    kept.close();
    await Promise.resolve();
  });
  expect(kept.take()).toBeUndefined();
  expect(pool.idleCount).toBe(1);
});
