import { expect, test } from "vitest";
import { defineJob, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const note = defineJob("note", { payload: typed<unknown>() });

/** How many transactions the stored jobs came in. */
async function transactions(fresh: Fresh): Promise<{ jobs: number; transactions: number }> {
  const [row] = await fresh.sql<{ jobs: number; transactions: number }>(
    "select count(*)::int as jobs, count(distinct xmin::text)::int as transactions from stint.job",
  );
  return row!;
}

test("200 concurrent enqueues share a few transactions", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const results = await Promise.all(Array.from({ length: 200 }, (_, n) => stint.enqueue(note, n)));

  expect(new Set(results.map((result) => result.id)).size).toBe(200);
  const found = await transactions(fresh);
  expect(found.jobs).toBe(200);
  expect(found.transactions).toBeLessThanOrEqual(3);
});

test("many callers that each await their own enqueue share transactions", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const caller = async (): Promise<void> => {
    for (let n = 0; n < 10; n++) await stint.enqueue(note, n);
  };
  await Promise.all(Array.from({ length: 50 }, caller));

  const found = await transactions(fresh);
  expect(found.jobs).toBe(500);
  expect(found.transactions).toBeLessThanOrEqual(100);
});

test("sequential enqueues are sent immediately, each in its own transaction", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  for (let n = 0; n < 3; n++) await stint.enqueue(note, n);
  expect(await transactions(fresh)).toEqual({ jobs: 3, transactions: 3 });
});

test("large payloads are not batched into a statement Postgres would refuse", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const heavy = "x".repeat(1_000_000);
  await Promise.all(Array.from({ length: 20 }, () => stint.enqueue(note, heavy)));
  const found = await transactions(fresh);
  expect(found.jobs).toBe(20);
  expect(found.transactions).toBeGreaterThanOrEqual(3);
});

test.each([
  ["a constraint", `alter table stint.job add constraint not_bad check (payload <> '"bad"')`, "23514"],
  [
    "a conversion",
    `create unique index on stint.job ((case payload when '"bad"' then (payload ->> 0)::int end))`,
    "22P02",
  ],
  ["a trigger", undefined, "P0001"],
])("a row refused by %s fails only its own caller", async (_, ddl, code) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  if (ddl === undefined) {
    await fresh.sql(
      `create function stint.refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
    );
    await fresh.sql(
      `create trigger refuse before insert on stint.job for each row when (new.payload = '"bad"') execute function stint.refuse()`,
    );
  } else {
    await fresh.sql(ddl);
  }
  const payloads = Array.from({ length: 100 }, (_, n) => (n === 17 || n === 80 ? "bad" : n));
  const settled = await Promise.allSettled(payloads.map((payload) => stint.enqueue(note, payload)));

  const failed = settled.flatMap((one, index) => (one.status === "rejected" ? [index] : []));
  expect(failed).toEqual([17, 80]);
  expect(settled[17]).toMatchObject({ reason: { code } });
  const found = await transactions(fresh);
  expect(found.jobs).toBe(98);
  // Halving finds the culprits; sending each row alone would take a hundred.
  expect(found.transactions).toBeLessThanOrEqual(20);
});
