import { expect, onTestFinished, test } from "vitest";
import type { Inspector } from "#stint/inspect.js";
import { waitingTenants } from "#stint/sql/waiting-tenants.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";

/** So many ready jobs of a queue, of these tenants in turn. */
async function waiting(fresh: Fresh, queue: string, count: number, tenants: readonly (string | null)[]) {
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, tenant)
     select gen_random_uuid(), 'work', $1, 'ready', now() + n * interval '1 ms', now(), '{}',
       ($3::text[])[1 + n % cardinality($3::text[])]
     from generate_series(0, $2::integer - 1) n`,
    [queue, count, tenants],
  );
}

function inspect(fresh: Fresh): Inspector {
  const inspector = fresh.client().inspector();
  onTestFinished(() => inspector.close());
  return inspector;
}

test("waiting tenants are listed, most first; jobs without a tenant are not listed", async () => {
  const fresh = await freshSchema();
  await waiting(fresh, "mail", 6, ["acme", "acme", "bolt"]);
  await waiting(fresh, "ocr", 4, ["bolt", null]);
  await fresh.sql(
    `select stint.enqueue('later', '{}', '{"tenant": "never", "delay": "1h", "queue": "mail"}')`,
  );

  expect(await inspect(fresh).waitingTenants()).toEqual({
    tenants: [
      { tenant: "acme", ready: 4 },
      { tenant: "bolt", ready: 4 },
    ],
    of: { count: 10, capped: false },
  });
});

test("no tenant is listed when no job waits", async () => {
  const fresh = await freshSchema();
  expect(await inspect(fresh).waitingTenants()).toEqual({ tenants: [], of: { count: 0, capped: false } });
});

test("each queue gets its share of the search in claim order, and the rest is reported", async () => {
  const fresh = await freshSchema();
  await waiting(fresh, "a-long-queue", 50, ["acme"]);
  await waiting(fresh, "short", 3, ["bolt"]);
  await fresh.sql(
    // Before all others of its queue.
    `select stint.enqueue('work', '{}', '{"tenant": "first", "queue": "a-long-queue", "priority": -5}')`,
  );

  expect(await waitingTenants(fresh.db, { most: 20, tenants: 2 })).toEqual({
    tenants: [
      { tenant: "acme", ready: 9 },
      { tenant: "bolt", ready: 3 },
    ],
    lookedAt: 13,
    all: false,
  });
});
