import { expect, test } from "vitest";
import { silentLogger } from "#stint/index.js";
import { ConnectionLost, type Db } from "#stint/db/db.js";
import { Meter } from "#stint/signals/meter.js";
import { flush, seriesSteps, type SeriesRow, type SeriesStep } from "#stint/sql/series.js";
import { fold } from "#stint/sql/tallies.js";
import { pruneSignals } from "#stint/sql/prune.js";
import { talliesService, type Tallies } from "#stint/upkeep/tallies.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne, take } from "../sql/jobs.ts";

const vitals = { busy: 1, slots: 4, waiting: 0, lagMs: 2, rssBytes: 1_000 };

async function send(fresh: Fresh, worker: string, rows: readonly SeriesRow[]): Promise<void> {
  await flush(fresh.db, { worker, vitals, rows, tenants: [], kinds: [] });
}

/** All that was told within the last hour, in one. */
async function hour(fresh: Fresh, stepSeconds = 3_600, kind: string | null = null): Promise<SeriesStep> {
  const steps = await seriesSteps(fresh.db, { stepSeconds, backMs: 3_700_000, queue: null, kind });
  expect(steps.length).toBeGreaterThan(0);
  // The hour may have turned meanwhile.
  return steps.reduce((sum, step) => ({
    ...step,
    ...Object.fromEntries(
      Object.entries(step).map(([name, value]) => [
        name,
        typeof value === "number" ? value + Number(sum[name as keyof SeriesStep]) : value,
      ]),
    ),
    run: step.run.map((count, n) => count + (sum.run[n] ?? 0)),
    wait: step.wait.map((count, n) => count + (sum.wait[n] ?? 0)),
  }));
}

test("what two workers tell adds up, in every step, bucket by bucket", async () => {
  const fresh = await freshSchema();
  const row = { queue: "a", kind: "mail" };
  await send(fresh, "one", [{ ...row, claimed: 3, succeeded: 2, run: [1, 2, 3], run_ms: 5 }]);
  await send(fresh, "two", [
    { ...row, claimed: 4, dead: 1, run: [10, 20, 30, 40], run_ms: 7 },
    { queue: "b", kind: "mail", claimed: 100 },
  ]);
  await send(fresh, "one", [{ ...row, wait: [5], wait_ms: 1 }]);

  for (const step of [10, 60, 600, 3_600]) {
    const sum = await hour(fresh, step);
    expect(sum).toMatchObject({ claimed: 107, succeeded: 2, dead: 1, failed: 0, arrived: 0 });
    expect(sum.run.slice(0, 5)).toEqual([11, 22, 33, 40, 0]);
    expect(sum.wait.slice(0, 2)).toEqual([5, 0]);
    expect(sum.run).toHaveLength(21);
  }
});

test("twenty workers that tell of the same kinds at once, in any order, lose nothing and wait for nobody in vain", async () => {
  const fresh = await freshSchema();
  const rows = ["x", "y", "z"].map((kind) => ({ queue: "a", kind, claimed: 1 }));
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      await send(fresh, `w${n}`, n % 2 === 0 ? rows : rows.toReversed());
    }),
  );

  expect(await hour(fresh)).toMatchObject({ claimed: 60 });
  expect(await hour(fresh, 3_600, "y")).toMatchObject({ claimed: 20 });
});

test("a worker's vitals are kept, and it is told how long runs of its kinds lasted", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, '1', '{}', '{}')`,
  );
  await send(fresh, "w", [
    { queue: "a", kind: "mail", run: [7, 0, 1], run_ms: 9 },
    { queue: "b", kind: "mail", run: [1], run_ms: 9 },
    { queue: "a", kind: "other", run: [1], run_ms: 9 },
  ]);
  const usual = await flush(fresh.db, { worker: "w", vitals, rows: [], tenants: [], kinds: ["mail"] });

  expect([...usual.keys()]).toEqual(["mail"]);
  expect(usual.get("mail")?.slice(0, 4)).toEqual([8, 0, 1, 0]);
  expect(await fresh.sql(`select vitals from stint.worker`)).toEqual([{ vitals }]);
});

test("a fold tells what arrived, and samples what is there", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}, { delay_ms: 60_000 }, { kind: "other" }]);
  await fresh.sql(
    `update stint.job set run_at = now() - interval '1 minute' where state = 'ready' and kind = 'other'`,
  );
  await take(fresh.db, { limit: 1 });
  await fold(fresh.db, 0);

  const work = await hour(fresh, 10, "work");
  expect(work).toMatchObject({ arrived: 3, ready: 1, running: 1 });
  // Of the whole queue.
  expect(work.oldestReadyMs).toBeGreaterThanOrEqual(60_000);
  expect(await hour(fresh, 10, "other")).toMatchObject({ arrived: 1, ready: 1, running: 0 });
});

test("a fold that does not sample tells what arrived all the same", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}]);

  expect(await fold(fresh.db, 0, false)).toBe(1);
  expect(await hour(fresh, 10)).toMatchObject({
    arrived: 2,
    ready: null,
    running: null,
    oldestReadyMs: null,
  });
});

test("a sample says that a queue has become empty", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  await fold(fresh.db, 0);
  await fresh.sql(`with gone as (delete from stint.job returning 1)
    insert into stint.tally_delta (queue, kind, priority, live) select 'main', 'work', 0, -1 from gone`);
  await fold(fresh.db, 0);

  const [{ ready, oldest_ready_ms: age } = {}] = await fresh.sql(
    `select ready, oldest_ready_ms from stint.series where step = 3600 order by at desc limit 1`,
  );
  expect([ready, age]).toEqual(["0", null]);
});

test("what only waits for its time is sampled when it changes, not with every fold", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { queue: "later", delay_ms: 3_600_000 });
  await fold(fresh.db, 0);
  const before = await fresh.sql(`select queue, ready from stint.series where step = 3600`);
  await fresh.sql(`delete from stint.series`);
  await addOne(fresh.db);
  await fold(fresh.db, 0);

  expect(before).toEqual([{ queue: "later", ready: "0" }]);
  expect(await fresh.sql(`select queue, ready from stint.series where step = 3600`)).toEqual([
    { queue: "main", ready: "1" },
  ]);
});

test("points past their time are pruned, a batch at a time, each step by its own", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind)
     select step, now() - age, 'a', 'k' || n
     from (values (10, interval '5 h'), (10, '7 h'), (60, '1 d'), (60, '3 d'), (600, '7 d'), (600, '9 d'), (3600, '89 d'), (3600, '91 d')) s (step, age),
       generate_series(1, 10) n`,
  );
  await fresh.sql(
    `insert into stint.tenant_usage (at, tenant, ended, run_ms)
     values (now() - interval '2 h', 'new', 1, 1), (now() - interval '25 h', 'old', 1, 1)`,
  );
  await fresh.sql(
    `insert into stint.tally values ('a', 'gone', 0, 0, 0, 0, 0, 0), ('a', 'there', 0, 1, 0, 0, 0, 0)`,
  );

  expect([
    await pruneSignals(fresh.db, 8),
    await pruneSignals(fresh.db, 100),
    await pruneSignals(fresh.db, 100),
  ]).toEqual([8, 32, 0]);
  expect(
    await fresh.sql(`select step, count(*)::integer as n from stint.series group by 1 order by 1`),
  ).toEqual([
    { step: 10, n: 10 },
    { step: 60, n: 10 },
    { step: 600, n: 10 },
    { step: 3_600, n: 10 },
  ]);
  expect(await fresh.sql(`select tenant from stint.tenant_usage`)).toEqual([{ tenant: "new" }]);
  expect(await fresh.sql(`select kind from stint.tally`)).toEqual([{ kind: "there" }]);
});

/** A duty that sends through `db`, and is asked for by hand. */
function duty(db: Db, meter: Meter): Tallies {
  return talliesService(db, {
    worker: "w",
    meter,
    kinds: [],
    vitals: () => vitals,
    onUsual: () => undefined,
    logger: silentLogger,
  });
}

test("what the database refused is told again; what may have arrived is not", async () => {
  const fresh = await freshSchema();
  const meter = new Meter();
  const fails: Error[] = [new Error("refused"), new ConnectionLost("gone")];
  const db = new Proxy(fresh.db, {
    get: (target, name) =>
      name === "run" && fails.length > 0
        ? async () => {
            throw fails.shift()!;
          }
        : (Reflect.get(target, name) as (...args: never[]) => unknown).bind(target),
  });
  const tallies = duty(db, meter);
  meter.of("a", "mail").claimed = 5;
  await expect(tallies.flush()).rejects.toThrow("refused");
  expect(tallies.isDone()).toBe(false);
  await expect(tallies.flush()).rejects.toThrow("gone");
  expect(tallies.isDone()).toBe(true);
  meter.of("a", "mail").claimed = 7;
  await tallies.flush();

  expect(await hour(fresh)).toMatchObject({ claimed: 2 });
});

test("where nothing happened, nothing is sent", async () => {
  const fresh = await freshSchema();
  const sent: string[] = [];
  const db = {
    schema: fresh.schema,
    run: async ({ name }: { name: string }) => {
      sent.push(name);
      return await Promise.resolve([]);
    },
  } as unknown as Db;
  const meter = new Meter();
  const tallies = duty(db, meter);
  await tallies.flush();
  await tallies.flush();
  expect(sent).toEqual([]);
  meter.of("a", "mail").claimed = 1;
  await tallies.flush();
  await tallies.flush();
  expect(sent).toEqual(["flush"]);
});
