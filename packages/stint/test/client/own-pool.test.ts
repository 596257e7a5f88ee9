import { Client, Pool, types } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createStint, defineJob, entry, handle, silentLogger, typed, type Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";

const timestamptz: number = types.builtins.TIMESTAMPTZ;
const work = defineJob("work", { payload: typed<{ n: number }>(), result: typed<number>() });

function onPool(fresh: Fresh, options = {}): { pool: Pool; stint: Stint } {
  const pool = new Pool({ connectionString: fresh.url, max: 2, ...options });
  const stint = createStint({ database: pool, schema: fresh.schema, logger: silentLogger });
  onTestFinished(async () => {
    await stint.close();
    if (!pool.ended) await pool.end();
  });
  return { pool, stint };
}

test("a client on a caller's pool enqueues, reads, waits and operates", async () => {
  const fresh = await freshSchema();
  const { pool, stint } = onPool(fresh);
  await startWorker(fresh.client(), { handlers: [handle(work, ({ payload }) => payload.n * 2)] });

  const one = await stint.enqueue(work, { n: 1 });
  const many = await stint.enqueueMany(
    Array.from({ length: 5_000 }, (_, n) => entry(work, { n }, { delay: "1h" })),
  );
  expect(await stint.waitFor(one, { timeout: "60s" })).toBe(2);
  const job = await stint.get(one.id);
  expect(job).toMatchObject({ state: "succeeded" });
  expect(Math.abs(job!.createdAt.getTime() - Date.now())).toBeLessThan(300_000);
  expect(await stint.cancel(many[0]!.id)).toBe("cancelled");
  const inspector = stint.inspector();
  expect((await inspector.health()).total.scheduled).toBe(4_999);
  await stint.close();

  expect(pool.ended).toBe(false);
  expect((await pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
}, 90_000);

test("the session settings of a caller's pool are unchanged", async () => {
  const fresh = await freshSchema();
  const { pool, stint } = onPool(fresh, { max: 1 });
  await pool.query(
    "set datestyle = 'German'; set timezone = 'America/St_Johns'; set extra_float_digits = -15",
  );
  await pool.query("set default_transaction_isolation = 'serializable'; do $$ begin end $$");
  const session = async (): Promise<unknown> => {
    const { rows } = await pool.query("select name, setting from pg_settings order by name");
    const { rows: prepared } = await pool.query("select name from pg_prepared_statements");
    return { rows, prepared };
  };
  const before = await session();
  const { id } = await stint.enqueue(work, { n: 1 });
  expect(Math.abs((await stint.get(id))!.createdAt.getTime() - Date.now())).toBeLessThan(300_000);
  await expect(stint.enqueue(work, { n: 1 }, { id: "no uuid" })).rejects.toThrow("UUID");
  await stint.inspector().jobs({});

  expect(await session()).toEqual(before);
  expect((await pool.query("show transaction_isolation")).rows).toEqual([
    { transaction_isolation: "serializable" },
  ]);
});

test("a worker on a caller's pool is refused, with the fix", async () => {
  const { stint } = onPool(await freshSchema());
  expect(() => stint.worker({ pools: { default: 1 }, handlers: [handle(work, () => 1)] })).toThrow(
    "stint.worker: needs connections of its own, and this client uses your pool",
  );
});

test("a lost connection of a caller's pool ends neither the process nor the enqueue", async () => {
  const fresh = await freshSchema();
  const { pool, stint } = onPool(fresh, { application_name: `own ${fresh.schema}` });
  pool.on("error", () => undefined);
  await stint.enqueue(work, { n: 1 });
  await fresh.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", [
    `own ${fresh.schema}`,
  ]);
  await stint.enqueue(work, { n: 2 });

  expect(await fresh.sql("select from stint.job")).toHaveLength(2);
});

test("the type parsers of a caller's pool do not matter", async () => {
  const fresh = await freshSchema();
  const { stint } = onPool(fresh, {
    types: { getTypeParser: (oid: number) => (oid === timestamptz ? () => "a text" : String) },
  });
  const { id } = await stint.enqueue(work, { n: 1 });
  const job = await stint.get(id);
  expect(job?.createdAt).toBeInstanceOf(Date);
  expect(job?.payload).toEqual({ n: 1 });
});

test("a single client in place of a pool is refused", () => {
  expect(() => createStint({ database: new Client() as never })).toThrow("pass a Pool to createStint");
});
