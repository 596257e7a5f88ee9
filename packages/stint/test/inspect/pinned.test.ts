import { expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import { forSchema } from "#stint/db/statement.js";
import { toSearch } from "#stint/inspect/filter.js";
import { findPage } from "#stint/inspect/bounded-search.js";
import { walk } from "#stint/sql/search.js";
import { uuidv7 } from "#stint/runtime/uuid.js";
import { adminClient } from "../support/database.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { addOne } from "../sql/jobs.ts";

const idAt = (ms: number): string => uuidv7(ms, new Uint8Array(10));

/**
 * How many pages the statement of a call reads, once its connection knows the catalog: the least of a few times, because other
 * tests change the catalog meanwhile, and then it is read again.
 */
async function pagesOf(fresh: Fresh, call: (db: Run) => Promise<unknown>): Promise<number> {
  let pages = 0;
  const db: Run = {
    async run(statement, values) {
      const client = await adminClient(fresh.url);
      type Explained = {
        "QUERY PLAN": { Plan: { "Shared Hit Blocks": number; "Shared Read Blocks": number } }[];
      };
      const explain = `explain (analyze, buffers, format json) ${forSchema(statement.text, fresh.schema)}`;
      let least = Infinity;
      for (let n = 0; n < 6; n++) {
        const { rows } = await client.query<Explained>(explain, [...values]);
        const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
        least = Math.min(least, (plan?.["Shared Hit Blocks"] ?? 0) + (plan?.["Shared Read Blocks"] ?? 0));
      }
      await client.end();
      pages += least;
      return [{ id: null, examined: 0, reached: null }];
    },
  };
  await call(db);
  return pages;
}

test("dead rows kept by an open transaction cost a search only within its time range", async () => {
  const fresh = await unusedSchema();
  const now = Date.now();
  const old = await addOne(fresh.db, { id: idAt(now - 7_200_000) });
  const holder = await adminClient(fresh.url);
  await holder.query("begin isolation level repeatable read");
  await holder.query(`select from "${fresh.schema}".job`);
  // One hour of jobs, 20 a second, that came and went.
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select (overlay(lpad(to_hex(${now - 3_600_000} + n * 50), 12, '0') placing '-' from 9 for 0) || '-7000-8000-000000000000')::uuid,
       'work', 'main', 'ready', now(), now(), '{}'
     from generate_series(1, 72000) n`,
  );
  await fresh.sql(`delete from stint.job where id <> $1`, [old]);
  const search = toSearch("jobs", {});
  const window = { rows: 1_000, limit: 50 };

  const whole = await pagesOf(fresh, (db) => walk(db, search, window));
  const span = await pagesOf(fresh, (db) => walk(db, { ...search, from: idAt(now - 10_000) }, window));
  // No time at all: one window, which finds nothing, and the place to continue from.
  const stopped = await findPage(fresh.db, search, 50, { rows: 200_000, ms: 0 });
  const found = await findPage(fresh.db, search, 50, { rows: 200_000, ms: 600_000 });
  await holder.query("rollback");
  await holder.end();

  expect(whole).toBeGreaterThan(1_000);
  // Where the table was analysed meanwhile, planning looks for the ends of the index, through a hundred pages at most.
  expect(span).toBeLessThan(whole / 2);
  expect(stopped).toMatchObject({ jobs: [], partial: true });
  expect(stopped.next! > idAt(now - 60_000)).toBe(true);
  expect(found.jobs.map((job) => job.id)).toEqual([old]);
});
