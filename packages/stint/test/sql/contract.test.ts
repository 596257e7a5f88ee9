import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { forSchema } from "#stint/db/statement.js";
import { steps } from "#stint/sql/series.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { calls, sentBy } from "./statements.ts";

const folder = new URL("../../src/sql/", import.meta.url);

test("the calls in this file reach every statement of sql/", async () => {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".ts"));
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, folder), "utf8")));
  const text = texts.join("\n");
  const named = (by: RegExp): string[] => [...text.matchAll(by)].map((match) => match[1] ?? "");
  // Of some there is one for each step of the series.
  const stepped = named(/\bbyStep\(\s*"([^"]+)"/g).flatMap((name) => steps.map((step) => `${name}-${step}`));
  const written = [...named(/\bstatement\(\s*"([^"]+)"/g), ...stepped];

  const sent = (await Promise.all(Object.values(calls).map(sentBy))).flat();

  expect([...new Set(sent.map((one) => one.statement.name))].sort()).toEqual(written.sort());
});

test("every statement can be prepared on the migrated schema", async () => {
  const fresh = await freshSchema();
  const client = await adminClient(fresh.url);
  const refused: string[] = [];

  for (const call of Object.values(calls)) {
    for (const { statement } of await sentBy(call)) {
      const text = forSchema(statement.text, fresh.schema);
      await client.query(`prepare "${statement.name}" as ${text}`).catch((error: Error) => {
        refused.push(`${statement.name}: ${error.message}`);
      });
    }
  }
  await client.end();

  expect(refused).toEqual([]);
});

test("prepared statements keep working when a later release adds columns", async () => {
  const fresh = await freshSchema();
  for (const call of Object.values(calls)) await call(fresh.db);
  for (const table of ["job", "history", "worker", "kind", "audit", "dedupe_window", "migration"]) {
    await fresh.sql(`alter table stint.${table} add column from_the_future text`);
  }

  const failed: string[] = [];
  for (const [name, call] of Object.entries(calls)) {
    await call(fresh.db).catch((error: Error) => failed.push(`${name}: ${error.message}`));
  }

  expect(failed).toEqual([]);
});

test("a finished job keeps every column of a live job that still has a meaning", async () => {
  const fresh = await freshSchema();
  const columns = async (table: string): Promise<string[]> =>
    (
      await fresh.sql<{ name: string }>(
        // A column of live jobs may have a rule, which is that of a domain: what is compared is the type below it.
        `select attname || ' ' || format_type(coalesce(nullif(t.typbasetype, 0), t.oid), atttypmod) as name
         from pg_attribute join pg_type t on t.oid = atttypid
         where attrelid = $1::regclass and attnum > 0`,
        [`"${fresh.schema}".${table}`],
      )
    ).map((row) => row.name);
  const live = await columns("job");
  const ended = await columns("history");

  const left = live.filter((name) => !ended.includes(name)).map((name) => name.split(" ")[0]);
  const added = ended.filter((name) => !live.includes(name)).map((name) => name.split(" ")[0]);

  expect(left).toEqual([
    "lease_until",
    "cancel_requested",
    "dedupe_key",
    "dedupe_until",
    "park_reason",
    "park_until",
    "has_follow_ups",
    "fair_tenant",
  ]);
  expect(added).toEqual(["finished_at", "result"]);
});
