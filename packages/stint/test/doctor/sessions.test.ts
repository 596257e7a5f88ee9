import { onTestFinished, expect, test } from "vitest";
import type { Client } from "pg";
import { adminClient, query } from "../support/database.ts";
import { sharedSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { findingsOf, healthyServer, lookAt, of } from "./support.ts";

const server = healthyServer();
const shared = sharedSchema(server.url);

/** A session of an application that is looked at. */
async function otherSession(name: string): Promise<{ client: Client; pid: number }> {
  const client = await adminClient(server.url());
  onTestFinished(async () => {
    await client.end().catch(() => undefined);
  });
  await client.query(`set application_name = '${name}'`);
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return { client, pid: rows[0]!.pid };
}

test("a forgotten transaction that pins the horizon is reported, and its fix ends it", async () => {
  const fresh = shared();
  const { client, pid } = await otherSession("forgetful");
  await client.query("begin isolation level repeatable read");
  await client.query("select 1");

  const [finding, ...others] = await findingsOf(fresh, "horizon", { patienceMs: 0 });

  expect(others).toEqual([]);
  expect(finding).toMatchObject({
    level: "warning",
    what: expect.stringMatching(
      new RegExp(`^pid ${pid}, application "forgetful", user \\w+, idle in transaction, open for`),
    ),
  });
  const [statement] = /select pg_terminate_backend\(\d+\);/.exec(finding!.fix) ?? [];
  await query(statement ?? "", [], fresh.url);
  await until(async () => (await findingsOf(fresh, "horizon", { patienceMs: 0 })).length === 0);
});

test("a transaction younger than the patience is not reported", async () => {
  const fresh = shared();
  const { client } = await otherSession("quick");
  await client.query("begin isolation level repeatable read");
  await client.query("select 1");

  expect(await findingsOf(fresh, "horizon", { patienceMs: 600_000 })).toEqual([]);
});

test("a prepared transaction that pins the horizon is reported, and its fix ends it", async () => {
  const fresh = shared();
  const { client } = await otherSession("coordinator");
  await client.query("begin");
  await client.query(`insert into "${fresh.schema}".kind (name, queue) values ('k', 'q')`);
  await client.query("prepare transaction 'it''s mine'");

  const [finding] = await findingsOf(fresh, "horizon", { patienceMs: 0 });

  expect(finding).toMatchObject({ level: "warning", what: expect.stringContaining(`"it's mine" of user`) });
  const [statement] = /rollback prepared '(?:[^']|'')+';/.exec(finding!.fix) ?? [];
  await query(statement ?? "", [], fresh.url);
  expect(await findingsOf(fresh, "horizon", { patienceMs: 0 })).toEqual([]);
});

test("a replication slot that pins nothing is not reported", async () => {
  const fresh = shared();
  await fresh.sql("select pg_create_physical_replication_slot('spare', true)");

  expect(await findingsOf(fresh, "horizon")).toEqual([]);

  await fresh.sql("select pg_drop_replication_slot('spare')");
});

test("a blocking lock is reported, with the sessions that wait", async () => {
  const fresh = shared();
  const [holder, waiter] = [await otherSession("holder"), await otherSession("waiter")];
  await holder.client.query("begin");
  await holder.client.query(`lock table "${fresh.schema}".worker in access exclusive mode`);

  expect(await findingsOf(fresh, "locks", { patienceMs: 0 })).toMatchObject([
    {
      level: "warning",
      what: expect.stringContaining(`AccessExclusiveLock on table worker: pid ${holder.pid}`),
    },
  ]);

  const waiting = waiter.client.query(`select from "${fresh.schema}".worker`);
  await until(
    async () =>
      (await query("select from pg_locks where pid = $1 and not granted", [waiter.pid], fresh.url)).length >
      0,
  );
  expect(await findingsOf(fresh, "locks", { patienceMs: 0 })).toMatchObject([
    {
      level: "error",
      what: expect.stringMatching(new RegExp(`"holder".*1 session waits for it: pid ${waiter.pid}$`)),
      fix: expect.stringContaining(`select pg_terminate_backend(${holder.pid});`),
    },
  ]);
  await holder.client.query("rollback");
  await waiting;
});

test("a blocking row lock is reported", async () => {
  const fresh = shared();
  await fresh.sql("insert into stint.kind (name, queue) values ('k', 'q')");
  const [holder, waiter] = [await otherSession("holder"), await otherSession("waiter")];
  await holder.client.query("begin");
  await holder.client.query(`select from "${fresh.schema}".kind for update`);
  const waiting = waiter.client.query(`update "${fresh.schema}".kind set queue = 'r'`);
  await until(
    async () =>
      (await query("select from pg_locks where pid = $1 and not granted", [waiter.pid], fresh.url)).length >
      0,
  );

  const findings = await findingsOf(fresh, "locks", { patienceMs: 0 });
  await holder.client.query("rollback");
  await waiting;

  expect(findings).toMatchObject([
    {
      level: "error",
      what: expect.stringMatching(
        new RegExp(`^RowShareLock on table kind: pid ${holder.pid}, .* pid ${waiter.pid}$`),
      ),
    },
  ]);
});

test("a lock on a table that a check reads makes that check a note, and no other", async () => {
  const fresh = shared();
  const { client } = await otherSession("holder");
  await client.query("begin");
  await client.query(`lock table "${fresh.schema}".worker in access exclusive mode`);

  const report = await lookAt(fresh);

  expect(of(report, "workers")).toMatchObject([{ level: "note", title: 'The check "workers" failed' }]);
  expect(of(report, "history")).toEqual([]);
});
