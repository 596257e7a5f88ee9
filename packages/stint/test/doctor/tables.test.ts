import { expect, test } from "vitest";
import { adminClient, query } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { findingsOf, healthyServer } from "./support.ts";

const server = healthyServer();

test("dead rows that vacuum does not remove are reported", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("alter table stint.audit set (autovacuum_enabled = off)");
  await fresh.sql(
    "insert into stint.audit (id, actor, action, job_id) select gen_random_uuid(), 'a', 'b', gen_random_uuid() from generate_series(1, 30000)",
  );
  await fresh.sql("delete from stint.audit");
  expect(await findingsOf(fresh, "vacuum")).toMatchObject([
    { level: "error", what: "table audit", fix: expect.stringContaining("reset (autovacuum_enabled);") },
  ]);
  // As autovacuum would find it whose every worker is busy: a vacuum that is held up.
  const admin = await adminClient(fresh.url);
  await admin.query("alter system set autovacuum_naptime = '1h'");
  await admin.query("select pg_reload_conf()");
  await fresh.sql("alter table stint.audit reset (autovacuum_enabled)");
  await until(
    async () => (await findingsOf(fresh, "vacuum")).some((one) => one.title === "Vacuum is far behind"),
    { pauseMs: 1_000 },
  );

  await query(`vacuum "${fresh.schema}".audit`, [], fresh.url);

  await until(async () => (await findingsOf(fresh, "vacuum")).length === 0, { pauseMs: 1_000 });
  await admin.query("alter system reset autovacuum_naptime");
  await admin.query("select pg_reload_conf()");
  await admin.end();
});

test("missing partitions and stray rows are reported, and the fix repairs them", async () => {
  const fresh = await freshSchema(server.url());
  const days = await fresh.sql<{ name: string }>(
    "select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'stint.history_done'::regclass and c.relname ~ '[0-9]{8}$'",
  );
  expect(days.length).toBeGreaterThan(2);
  for (const { name } of days) await fresh.sql(`drop table stint.${name}`);

  const [finding] = await findingsOf(fresh, "history");
  expect(finding).toMatchObject({ level: "warning", what: "today has none" });
  await query(finding!.fix.replace(/^.*By hand: /, ""), [], fresh.url);
  expect(await findingsOf(fresh, "history")).toEqual([]);

  await fresh.sql(
    `insert into stint.history
       (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run, payload)
     values (gen_random_uuid(), 'k', 'q', 'succeeded', 0, now(), now(), now() - interval '1 year', 1, 0, 0, 1, 1, '{}')`,
  );
  expect(await findingsOf(fresh, "history")).toMatchObject([
    { level: "note", what: "1 row in table history_done_rest" },
  ]);
});

test("a sequence that runs out is reported", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("create sequence stint.mine as integer");
  await fresh.sql("select setval('stint.mine', 2000000000)");

  expect(await findingsOf(fresh, "numbers")).toMatchObject([
    { level: "error", what: "sequence mine: 93 % are used", fix: expect.stringContaining(`"mine" restart;`) },
  ]);
});

test("tallies that differ from the tables are reported, and the fix recounts", async () => {
  const fresh = await freshSchema(server.url());
  await fresh.sql("select stint.enqueue('send-receipt', '{}', '{\"queue\": \"mail\"}')");
  expect(await findingsOf(fresh, "tallies")).toEqual([]);
  await fresh.sql("delete from stint.job");

  const [finding] = await findingsOf(fresh, "tallies");

  expect(finding).toMatchObject({
    level: "warning",
    what: expect.stringMatching(
      /^queue mail, kind send-receipt, priority 0: tallied .* 1 ready.* there are .* 0 ready/,
    ),
  });
  await query(finding!.fix.replace(/^.*Recount: /, ""), [], fresh.url);
  expect(await findingsOf(fresh, "tallies")).toEqual([]);
});
