import { beforeAll, describe, expect, test } from "vitest";
import { defineJob, handle, steps, typed, type Tx } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { noteTable } from "../support/note-table.ts";
import { sharedWorker, startWorker } from "../support/watch.ts";

const options = { payload: typed<{ n: number }>(), backoff: steps("1h"), attempts: 1 };
const work = defineJob("work", options);
const atomic = defineJob("atomic", { ...options, atomic: true });

async function withNotes(): Promise<{
  fresh: Fresh;
  note: (tx: Tx) => Promise<void>;
  count: () => Promise<number>;
}> {
  const fresh = await freshSchema();
  const table = await noteTable(fresh, "n integer");
  return {
    fresh,
    note: async (tx) => void (await tx.query(`insert into ${table} values (1)`)),
    count: async () => (await fresh.sql(`select from ${table}`)).length,
  };
}

/** Everything of a session that a handler can change and leave behind, as one row. */
const session = `
  select pg_backend_pid() as pid, current_user as role, session_user as login,
    current_setting('search_path') as path, current_setting('default_transaction_read_only') as read_only,
    current_setting('timezone') as zone, current_setting('datestyle') as datestyle,
    current_setting('statement_timeout') as timeout, nullif(current_setting('my.setting', true), '') as own,
    (select count(*)::int from pg_prepared_statements where from_sql) as prepared,
    (select count(*)::int from pg_listening_channels()) as channels,
    (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
    (select count(*)::int from pg_cursors where is_holdable) as cursors,
    to_regclass('pg_temp.left_behind')::text as temp`;

const poison = [
  "set default_transaction_read_only = on",
  "set search_path = nowhere",
  "set role pg_monitor",
  "set timezone = 'Asia/Tokyo'",
  "set datestyle = 'German'",
  "set statement_timeout = '90s'",
  "set my.setting = 'mine'",
  "prepare theirs as select 1",
  "listen channel_of_mine",
  "select pg_advisory_lock(4711)",
  "declare kept cursor with hold for select 1",
];

describe("a setting that a handler makes on its connection", () => {
  test.each(["complete", "atomic"])("does not reach the next handler (%s)", async (how) => {
    const { fresh, note, count } = await withNotes();
    const stint = fresh.client();
    const seen: unknown[] = [];
    const use = async (tx: Tx, n: number): Promise<void> => {
      seen.push((await tx.query(session)).rows[0]);
      await note(tx);
      if (n === 1) await tx.query("create temp table left_behind (n integer)");
      for (const text of n === 1 ? poison : []) await tx.query(text);
      // The job is settled in this transaction, too.
      if (n === 1) await tx.query("reset role");
    };
    const { seen: until } = await startWorker(stint, {
      pools: { default: 1 },
      handlers: [
        handle(work, async ({ complete, payload }) => await complete(async (tx) => await use(tx, payload.n))),
        handle(atomic, async ({ tx, payload }) => await use(tx, payload.n)),
      ],
    });
    for (const n of [1, 2]) {
      const { id } = await stint.enqueue(how === "atomic" ? atomic : work, { n });
      expect(await until("settled", (event) => event.id === id)).toMatchObject({ outcome: "succeeded" });
    }

    // On the same connection, which is what this is about.
    expect(seen[1]).toEqual(seen[0]);
    expect(await count()).toBe(2);
  });

  test("does not break prepared statements", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const named = { name: "theirs", text: "select $1::int as n", values: [7] };
    const results: unknown[] = [];
    await startWorker(stint, {
      pools: { default: 1 },
      handlers: [
        handle(atomic, async ({ tx }) => {
          const client = tx.client as { query: (config: object) => Promise<{ rows: unknown[] }> };
          results.push(...(await client.query(named)).rows);
        }),
      ],
    });
    for (const n of [1, 2, 3]) await stint.waitFor(await stint.enqueue(atomic, { n }), { timeout: "60s" });

    expect(results).toEqual([{ n: 7 }, { n: 7 }, { n: 7 }]);
  });
});

describe("a handler that ends its own transaction", () => {
  const endings = [
    "commit",
    "rollback",
    "commit; begin",
    "rollback; begin",
    "commit and chain",
    "rollback and chain",
  ];

  const ending = { ...options, payload: typed<{ n: number; text: string }>() };
  const endsInComplete = defineJob("ends-in-complete", ending);
  const endsAtomic = defineJob("ends-atomic", { ...ending, atomic: true });
  const shared = sharedWorker((fresh) => {
    const use = async (tx: Tx, { n, text }: { n: number; text: string }): Promise<void> => {
      await tx.query("select 1");
      await tx.query(text);
      await tx.query(`insert into "${fresh.schema}".note values ($1)`, [n]);
    };
    return {
      handlers: [
        handle(endsInComplete, async ({ complete, payload }) => await complete((tx) => use(tx, payload))),
        handle(endsAtomic, async ({ tx, payload }) => await use(tx, payload)),
      ],
    };
  });
  beforeAll(async () => {
    await shared().fresh.sql("create table stint.note (n integer)");
  });
  const cases = endings.flatMap((text, n) => [
    { how: "complete", text, kind: endsInComplete, n: 2 * n },
    { how: "atomic", text, kind: endsAtomic, n: 2 * n + 1 },
  ]);

  test.each(cases)("is not reported as a success ($how: $text)", async ({ kind, text, n }) => {
    const { fresh, stint, seen } = shared();
    const { id } = await stint.enqueue(kind, { n, text });
    expect(await seen("settled", (event) => event.id === id)).toMatchObject({
      state: "dead",
      outcome: "failed",
    });

    expect((await stint.get(id))?.reason).toContain("its transaction was ended by a COMMIT or ROLLBACK");
    // What it wrote after it had ended its transaction is its own affair; in a new one it is rolled back.
    const written = await fresh.sql("select from stint.note where n = $1", [n]);
    expect(written).toHaveLength(/begin|chain/.test(text) ? 0 : 1);
  });

  test("may use savepoints and a second begin", async () => {
    const { fresh, note, count } = await withNotes();
    const stint = fresh.client();
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(atomic, async ({ tx }) => {
          await note(tx);
          await tx.query("begin");
          await tx.query("savepoint here");
          await note(tx);
          await tx.query("select 1 / 0").catch(() => undefined);
          await tx.query("rollback to savepoint here");
        }),
      ],
    });
    const { id } = await stint.enqueue(atomic, { n: 1 });

    expect(await seen("settled", (event) => event.id === id)).toMatchObject({ outcome: "succeeded" });
    expect(await count()).toBe(1);
  });

  test("a statement that fails between settle and commit rolls the success back", async () => {
    const { fresh, note, count } = await withNotes();
    const stint = fresh.client();
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(atomic, async ({ tx, id }) => {
          await note(tx);
          // As a deferred trigger of the user's would, or a query that was not awaited: it runs once the job is settled.
          const divide = `select 1 / (select count(*) from "${fresh.schema}".job where id = $1)`;
          void tx
            .query("select 1")
            .then(async () => await tx.query(divide, [id]))
            .catch(() => undefined);
        }),
      ],
    });
    const { id } = await stint.enqueue(atomic, { n: 1 });
    const event = await seen("settled", (settled) => settled.id === id);

    const state = (await stint.get(id))?.state;
    expect(event.state).toBe(state);
    expect(await count()).toBe(state === "succeeded" ? 1 : 0);
  });
});
