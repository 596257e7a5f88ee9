import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { migrate } from "#stint/db/migrate.js";
import { forSchema } from "#stint/db/statement.js";
import { grantSql } from "#stint/sql/grants.js";
import { fold } from "#stint/sql/tallies.js";
import { adminClient, query } from "../support/database.ts";
import { freshSchema, openDb, type Fresh } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { add, addOne } from "../sql/jobs.ts";
import { counted, tallied } from "./depths.ts";

let other: OwnServer;
beforeAll(async () => {
  other = await ownServer();
});
afterAll(async () => {
  await other.remove();
});

/**
 * What a dump of the one holds, as it stands in the other afterwards: the same rows, on a server with another name and other transaction numbers.
 * `ahead`: by how much the numbers in the dump are ahead of the server's.
 */
async function restore(from: Fresh, ahead: number): Promise<Fresh> {
  const to = await freshSchema(other.url);
  for (const table of ["job", "tally", "tally_delta", "tally_fold"]) {
    const rows = await from.sql<{ row: string }>(`select to_jsonb(t)::text as row from stint.${table} t`);
    await to.sql(`delete from stint.${table}`);
    for (const { row } of rows)
      await to.sql(
        `insert into stint.${table} select (jsonb_populate_record(null::stint.${table}, $1::jsonb)).*`,
        [row],
      );
  }
  await to.sql(
    `update stint.tally_fold
     set snapshot = format('%1$s:%1$s:', pg_snapshot_xmax(pg_current_snapshot())::text::bigint + $1)::pg_snapshot`,
    [ahead],
  );
  return to;
}

/** Seven jobs, the deltas of two of them unfolded. */
async function dumped(): Promise<Fresh> {
  const fresh = await freshSchema();
  const payload = 1;
  await add(fresh.db, [
    { payload },
    { payload },
    { payload },
    { payload, kind: "other" },
    { payload, delay_ms: 60_000 },
  ]);
  await fold(fresh.db, 0);
  await add(fresh.db, [{ payload }, { payload, kind: "other" }]);
  return fresh;
}

/** Uses up this many transaction ids. */
async function pass(fresh: Fresh, transactions: number): Promise<void> {
  const client = await adminClient(fresh.url);
  for (let n = 0; n < transactions; n++) await client.query("select pg_current_xact_id()");
  await client.end();
}

test.each([
  ["far ahead of", 900_000_000_000, 0],
  ["a little ahead of, and passed before a fold,", 20, 60],
  ["behind", -5, 0],
])("a dump whose xids are %s this server's is recounted once", async (_, ahead, passing) => {
  const fresh = await restore(await dumped(), ahead);
  await add(fresh.db, [{}, { kind: "other" }, { priority: 3 }]);
  await pass(fresh, passing);
  const folds = await Promise.all([1, 2, 3, 4].map(async () => (await fold(fresh.db, 0)) ?? 0));
  await addOne(fresh.db);

  expect(folds).toEqual([0, 0, 0, 0]);
  expect(await counted(fresh)).toMatchObject([
    { kind: "other", ready: "3" },
    { kind: "work", priority: 0, ready: "6", scheduled: "1" },
    { kind: "work", priority: 3, ready: "1" },
  ]);
  expect(await tallied(fresh)).toEqual(await counted(fresh));
  // From here on it folds: what was wrong by hand stays wrong.
  await fresh.sql(
    `insert into stint.tally select fold, 'main', 'by-hand', 0, 9, 0, 0, 0, 0 from stint.tally_fold`,
  );
  expect(await fold(fresh.db, 0)).toBe(1);
  expect((await tallied(fresh)).map(({ kind }) => kind)).toContain("by-hand");
});

test("a starting worker recounts restored tallies, even without jobs", async () => {
  const fresh = await restore(await dumped(), 1_000_000);
  await add(fresh.db, [{ kind: "unserved" }]);
  const idle = handle(defineJob("idle", { queue: "elsewhere", payload: typed<number>() }), () => undefined);
  const worker = fresh.client().worker({ pools: { elsewhere: 1 }, handlers: [idle] });
  await worker.start();
  await until(async () => (await tallied(fresh)).some(({ kind }) => kind === "unserved"), {
    message: "the new job is tallied",
  });
  await worker.stop();

  expect(await tallied(fresh)).toEqual(await counted(fresh));
});

test("a server that hides its identifier folds, and a restore is still noticed", async () => {
  const [owner, schema] = [
    `owner_${randomBytes(4).toString("hex")}`,
    `owned_${randomBytes(4).toString("hex")}`,
  ];
  await query(`create role "${owner}" login password 'secret'`, [], other.url);
  await query(`revoke execute on function pg_control_system() from public`, [], other.url);
  const [{ name } = { name: "" }] = await query<{ name: string }>(
    `select current_database() as name`,
    [],
    other.url,
  );
  await query(grantSql("owner", { role: owner, database: name }), [], other.url);
  const url = new URL(other.url);
  [url.username, url.password] = [owner, "secret"];
  await migrate({ connection: url.href, schema });
  const db = openDb(url.href, schema);
  const sql = async (text: string): Promise<Record<string, unknown>[]> =>
    await query(forSchema(text, schema), [], other.url);
  onTestFinished(async () => {
    await db.close();
    await query(`grant execute on function pg_control_system() to public`, [], other.url);
  });
  const live = async (): Promise<unknown> =>
    (await sql(`select sum(live)::integer as n from stint.depth`))[0]?.["n"];
  await add(db, [{}, {}]);

  expect(await fold(db, 0)).toBe(1);
  const [{ home } = { home: "" }] = await sql(`select home from stint.tally_fold`);
  expect(home).toMatch(/^unnamed\/\d+\/\d+$/);
  await sql(`update stint.tally_fold set home = 'unnamed/1/1'`);
  await sql(`insert into stint.tally select fold, 'main', 'by-hand', 0, 9, 0, 0, 0, 0 from stint.tally_fold`);
  expect(await live()).toBe(11);
  expect(await fold(db, 0)).toBe(0);
  expect(await live()).toBe(2);
});
