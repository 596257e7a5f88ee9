import { expect, test } from "vitest";
import { dropOldDays, makePartitionsAhead, pruneDead, pruneSmall } from "#stint/sql/prune.js";
import { replay } from "#stint/sql/operate.js";
import { finish } from "#stint/sql/finish.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { addOne, auditInfo, running, stored } from "./jobs.ts";
import { session } from "./sessions.ts";

const day = 86_400_000;

async function partitions(fresh: Fresh): Promise<string[]> {
  const rows = await fresh.sql<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'stint.history_done'::regclass order by 1`,
  );
  return rows.map((row) => row.name);
}

/** A finished job that ended some days ago. */
async function ended(fresh: Fresh, state: "succeeded" | "dead", daysAgo: number): Promise<string> {
  const fence = await running(fresh.db);
  await finish(fresh.db, [
    { fence, state, result: null, reason: null, ending: state === "dead" ? { outcome: "failed" } : null },
  ]);
  await fresh.sql(
    `update stint.history set finished_at = finished_at - $1 * interval '1 day' where id = $2`,
    [daysAgo, fence.job],
  );
  return fence.job;
}

function nameOf(daysFromNow: number): string {
  const date = new Date(Date.now() + daysFromNow * day);
  return `history_done_${date.toISOString().slice(0, 10).replaceAll("-", "")}`;
}

async function addDay(fresh: Fresh, daysFromNow: number): Promise<void> {
  const from = new Date(Date.now() + daysFromNow * day).toISOString().slice(0, 10);
  const to = new Date(Date.now() + (daysFromNow + 1) * day).toISOString().slice(0, 10);
  await fresh.sql(
    `create table stint.${nameOf(daysFromNow)} partition of stint.history_done for values from ('${from}Z') to ('${to}Z')`,
  );
}

test("today and the coming days have their partition, made once", async () => {
  const fresh = await freshSchema();

  const before = await partitions(fresh);
  const again = await makePartitionsAhead(fresh.db, 3);
  const more = await makePartitionsAhead(fresh.db, 5);

  expect(before).toEqual([...Array.from({ length: 4 }, (_, n) => nameOf(n)), "history_done_rest"]);
  expect([again, more]).toEqual([0, 2]);
});

test("a job that ends today goes into today's partition, by index like every other", async () => {
  const fresh = await freshSchema();
  const id = await ended(fresh, "succeeded", 0);

  const rows = await fresh.sql<{ name: string }>(
    `select tableoid::regclass::text as name from stint.history where id = $1`,
    [id],
  );
  const indexes = await fresh.sql<{ n: number }>(
    `select count(*)::integer as n from pg_indexes where schemaname = $1 and tablename = $2`,
    [fresh.schema, nameOf(0)],
  );

  expect(rows[0]?.name).toContain(nameOf(0));
  expect(indexes[0]?.n).toBe(2);
});

test("whole days past their retention are dropped, a few at a time; the rest stays", async () => {
  const fresh = await freshSchema();
  for (const ago of [-9, -8, -7, -6, -5, -4, -3, -2, -1]) await addDay(fresh, ago);
  const old = await ended(fresh, "succeeded", 9);
  const young = await ended(fresh, "succeeded", 1);

  const first = await dropOldDays(fresh.db, 2 * day);
  const second = await dropOldDays(fresh.db, 2 * day);
  const third = await dropOldDays(fresh.db, 2 * day);

  // Days that ended two days ago or longer: nine to three days back.
  expect([first, second, third]).toEqual([5, 2, 0]);
  expect(await fresh.sql(`select from stint.history where id = $1`, [old])).toEqual([]);
  expect((await stored(fresh, young)).state).toBe("succeeded");
  expect(await partitions(fresh)).toContain(nameOf(-2));
});

test("jobs outside every day go to the default partition and are still pruned", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`drop table stint.${nameOf(0)}`);
  const id = await ended(fresh, "succeeded", 0);
  const old = await ended(fresh, "succeeded", 40);

  const made = await makePartitionsAhead(fresh.db, 3);
  await pruneSmall(fresh.db, { doneMs: 30 * day, auditMs: 30 * day }, 1_000);

  // Today's rows are in the rest: a partition for today would refuse them.
  expect(made).toBe(0);
  expect((await stored(fresh, id)).state).toBe("succeeded");
  expect(await fresh.sql(`select from stint.history where id = $1`, [old])).toEqual([]);
});

test("dead jobs have their own retention and are pruned in batches, oldest first", async () => {
  const fresh = await freshSchema();
  await ended(fresh, "dead", 100);
  const older = await ended(fresh, "dead", 95);
  const recent = await ended(fresh, "dead", 10);

  await dropOldDays(fresh.db, 0);
  await pruneDead(fresh.db, 90 * day, 1);
  const afterOne = await fresh.sql<{ id: string }>(`select id from stint.history order by finished_at`);
  await pruneDead(fresh.db, 90 * day, 10);
  const afterAll = await fresh.sql<{ id: string }>(`select id from stint.history`);

  expect(afterOne.map((row) => row.id)).toEqual([older, recent]);
  expect(afterAll.map((row) => row.id)).toEqual([recent]);
});

test("expired dedupe windows and old audit rows go; current ones stay", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { dedupe_key: "old", dedupe_ms: 1_000 });
  await addOne(fresh.db, { dedupe_key: "new", dedupe_ms: 600_000 });
  await fresh.sql(`update stint.dedupe_window set expires_at = now() - interval '1 hour' where key = 'old'`);
  await fresh.sql(
    `insert into stint.audit (id, at, actor, action, job_id)
     select gen_random_uuid(), now() - n * interval '50 days', 'a', 'x', gen_random_uuid() from generate_series(0, 1) n`,
  );

  await pruneSmall(fresh.db, { doneMs: 30 * day, auditMs: 30 * day }, 1_000);

  expect(await fresh.sql(`select key from stint.dedupe_window`)).toEqual([{ key: "new" }]);
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(1);
});

test("upkeep stops waiting for a forgotten reader of history, and settling continues", async () => {
  const fresh = await freshSchema();
  await addDay(fresh, -5);
  const fence = await running(fresh.db);
  const forgotten = await session(fresh);
  await forgotten.begin();
  await forgotten.client.query(`select count(*) from "${fresh.schema}".history`);

  const dropped = await dropOldDays(fresh.db, day);
  const made = await makePartitionsAhead(fresh.db, 8);
  const settled = await finish(fresh.db, [
    { fence, state: "succeeded", result: null, reason: null, ending: null },
  ]);
  await forgotten.rollback();

  expect([dropped, made, settled.size]).toEqual([0, 0, 1]);
  expect([await dropOldDays(fresh.db, day), await makePartitionsAhead(fresh.db, 8)]).toEqual([1, 5]);
});

test("making partitions does not wait for a transaction that is settling a job", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const handler = await session(fresh);
  await handler.begin();
  await finish(handler, [{ fence, state: "succeeded", result: null, reason: null, ending: null }]);

  const made = await makePartitionsAhead(fresh.db, 5);
  await handler.commit();

  expect(made).toBe(2);
});

test("two workers that make partitions at the same time do not fail on each other", async () => {
  const fresh = await freshSchema();
  const [one, two] = [await session(fresh), await session(fresh)];
  await one.begin();
  const first = await makePartitionsAhead(one, 6);

  const second = await makePartitionsAhead(two, 6);
  await one.commit();

  expect([first, second]).toEqual([3, 0]);
  expect(await makePartitionsAhead(two, 6)).toBe(0);
});

test("a dead job that is replayed leaves nothing behind for the pruner", async () => {
  const fresh = await freshSchema();
  const id = await ended(fresh, "dead", 200);
  await replay(fresh.db, id, auditInfo());

  await pruneDead(fresh.db, 90 * day, 10);

  expect((await stored(fresh, id)).state).toBe("ready");
});

test("old rows of the ledger of slots go in batches; current ones stay", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.schedule_slot (schedule, slot, outcome, at)
     select 's', now() - n * interval '1 day', 'fired', now() - n * interval '1 day' from generate_series(0, 9) n`,
  );
  const keep = { doneMs: 5.5 * 86_400_000, auditMs: 1 };

  expect(await pruneSmall(fresh.db, keep, 3)).toBe(3);
  expect(await pruneSmall(fresh.db, keep, 3)).toBe(1);
  expect(await fresh.sql("select from stint.schedule_slot")).toHaveLength(6);
});
