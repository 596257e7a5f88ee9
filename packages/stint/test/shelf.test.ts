import { expect, test } from "vitest";
import { adminClient } from "./support/database.ts";
import { freshSchema } from "./support/fresh.ts";
import { fingerprint, isUnused } from "./support/shelf.ts";

// The suite relies on it: a test must never get a schema that another test has altered.
test("every change of a schema changes its fingerprint, and rows do not", async () => {
  const fresh = await freshSchema();
  let last = await fingerprint(fresh.schema);
  expect(last).not.toBeNull();
  await fresh.sql(
    "insert into stint.audit (id, actor, action, queue) values (gen_random_uuid(), 'ann', 'set', 'mail')",
  );
  expect(await fingerprint(fresh.schema)).toBe(last);

  const changes = [
    "create table stint.extra (id integer)",
    "alter table stint.extra add column note text",
    "alter table stint.extra alter column note set default 'a'",
    "create index extra_note on stint.extra (note)",
    "alter index stint.extra_note set (fillfactor = 50)",
    "alter table stint.extra add check (id > 0)",
    "analyze stint.audit",
    "grant select on stint.extra to public",
    "create function stint.extra() returns integer language sql as 'select 1'",
    "create or replace function stint.extra() returns integer language sql as 'select 2'",
    "create type stint.pair as (a integer, b integer)",
    'create collation stint.extra from "C"',
    "create view stint.seen as select id from stint.extra",
    "create policy nobody on stint.extra using (false)",
    "drop function stint.extra()",
    "delete from stint.migration where version = 1",
    "grant usage on schema stint to public",
  ];
  for (const change of changes) {
    await fresh.sql(change);
    const next = await fingerprint(fresh.schema);
    expect([change, next]).not.toEqual([change, last]);
    expect([change, next]).not.toEqual([change, null]);
    last = next;
  }
});

test("a schema is unused once the last session that used it has ended", async () => {
  const fresh = await freshSchema();
  const session = await adminClient(fresh.url);
  await session.query(`select from "${fresh.schema}".job`);
  const unused = isUnused(fresh.schema);
  await session.end();
  expect(await unused).toBe(true);
});
