import { expect, onTestFinished, test } from "vitest";
import { succeed } from "#stint/sql/succeed.js";
import { depths, standing } from "#stint/sql/depth.js";
import { fold, recount } from "#stint/sql/tallies.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { flatten, type PlanNode } from "../sql/explain.ts";
import { add, addOne, take } from "../sql/jobs.ts";
import { counted, tallied } from "./depths.ts";

async function deltas(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ n: number }>(`select count(*)::integer as n from stint.tally_delta`);
  return row!.n;
}

/** Opens a transaction in another session, which writes if `writes` is set. It ends with the test. */
async function openTransaction(fresh: Fresh, writes = false): Promise<() => Promise<void>> {
  const client = await adminClient(fresh.url);
  onTestFinished(async () => {
    await client.end();
  });
  await client.query("begin isolation level repeatable read");
  await client.query(`select count(*) from "${fresh.schema}".job`);
  if (writes) await client.query("select pg_current_xact_id()");
  return async () => void (await client.query("commit"));
}

test("a fold takes every delta once and does not change the depth", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}, { priority: 3 }, { kind: "other", delay_ms: 60_000 }]);
  const before = await tallied(fresh);

  expect(await fold(fresh.db, 0)).toBe(3);
  expect(await fold(fresh.db, 0)).toBe(0);
  expect(await deltas(fresh)).toBe(0);
  expect(await tallied(fresh)).toEqual(before);
  expect(before).toEqual(await counted(fresh));
});

test("a fold shortly after another does nothing", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  await fold(fresh.db, 0);
  await addOne(fresh.db);

  expect(await fold(fresh.db, 60_000)).toBeNull();
  expect(await fold(fresh.db, 0)).toBe(1);
});

test("a delta that commits after later transactions were folded is counted", async () => {
  const fresh = await freshSchema();
  const client = await adminClient(fresh.url);
  await client.query("begin");
  await client.query(`select "${fresh.schema}".enqueue('late', '1', '{"queue": "main"}')`);
  await add(fresh.db, [{}, {}]);
  await fold(fresh.db, 0);
  await addOne(fresh.db);
  await fold(fresh.db, 0);
  const before = await tallied(fresh);
  await client.query("commit");
  await client.end();

  expect(before).toMatchObject([{ kind: "work", ready: "3" }]);
  const after = [
    { kind: "late", ready: "1" },
    { kind: "work", ready: "3" },
  ];
  expect(await tallied(fresh)).toMatchObject(after);
  expect(await fold(fresh.db, 0)).toBe(1);
  expect(await tallied(fresh)).toMatchObject(after);
});

test("concurrent folds count nothing twice and miss nothing", async () => {
  const fresh = await freshSchema();
  const work = async (): Promise<void> => {
    for (let n = 0; n < 20; n++) {
      await add(fresh.db, [{}, {}, { priority: 1 }]);
      const jobs = await take(fresh.db, { limit: 2 });
      await succeed(
        fresh.db,
        jobs.map((job) => job.fence),
      );
    }
  };
  const folds = async (): Promise<number> => {
    let folded = 0;
    for (let n = 0; n < 60; n++) folded += (await fold(fresh.db, 0)) ?? 0;
    return folded;
  };
  const [first, second] = await Promise.all([folds(), folds(), work(), work()]);
  const rest = (await fold(fresh.db, 0)) ?? 0;

  expect(first + second + rest).toBeGreaterThan(0);
  expect(await deltas(fresh)).toBe(0);
  expect(await tallied(fresh)).toEqual(await counted(fresh));
});

test("a fold that is killed half-way changes nothing, and the next one does it all", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}]);
  const before = await tallied(fresh);
  // Blocked after it took the deltas: another session has locked the row it must replace.
  const holder = await adminClient(fresh.url);
  await holder.query("begin");
  await holder.query(`select from "${fresh.schema}".tally_fold for update`);
  const killed = fresh.sql(`select stint.fold_tallies()`).catch((error: Error) => error.message);
  const [victim] = (await until(
    async () => {
      const rows = await fresh.sql<{ pid: number }>(
        `select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%fold_tallies%'`,
        [fresh.schema],
      );
      return rows.length > 0 && rows;
    },
    { message: "the fold waits" },
  )) as { pid: number }[];
  // Meanwhile others neither wait nor fold.
  expect(await fold(fresh.db, 0)).toBeNull();
  await fresh.sql(`select pg_terminate_backend($1)`, [victim!.pid]);
  expect(await killed).toMatch(/terminat/i);
  await holder.query("rollback");
  await holder.end();

  expect(await deltas(fresh)).toBe(1);
  expect(await tallied(fresh)).toEqual(before);
  expect(await fold(fresh.db, 0)).toBe(1);
  expect(await tallied(fresh)).toEqual(before);
});

test.each(["recount", "fold_tallies"])(
  "deltas of a transaction before and after its own %s are counted once",
  async (name) => {
    const fresh = await freshSchema();
    const client = await adminClient(fresh.url);
    onTestFinished(async () => await client.end());
    const enqueueIn = async (): Promise<void> =>
      void (await client.query(`select "${fresh.schema}".enqueue('own', '1', '{"queue": "main"}')`));
    await client.query("begin");
    await enqueueIn();
    // Others begin later and end sooner.
    await addOne(fresh.db);
    await client.query(`select "${fresh.schema}".${name}()`);
    await enqueueIn();
    await client.query("commit");

    const truth = await counted(fresh);
    expect(truth).toMatchObject([
      { kind: "own", ready: "2" },
      { kind: "work", ready: "1" },
    ]);
    expect(await tallied(fresh)).toEqual(truth);
    await fold(fresh.db, 0);
    expect(await tallied(fresh)).toEqual(truth);
    expect(await deltas(fresh)).toBe(0);
  },
);

test("a fold takes whole transactions, oldest first, and leaves the rest", async () => {
  const fresh = await freshSchema();
  const client = await adminClient(fresh.url);
  onTestFinished(async () => await client.end());
  const say = (rows: number): string =>
    `insert into stint.tally_delta (queue, kind, priority, live) select 'main', 'work', 0, 1 from generate_series(1, ${rows})`;
  const foldSome = async (): Promise<number> => {
    const [row] = await fresh.sql<{ n: number }>(`select stint.fold_tallies(0, false, 4) as n`);
    return row!.n;
  };
  const live = async (): Promise<string> =>
    (await fresh.sql<{ live: string }>(`select live::text from stint.depth`))[0]!.live;
  await fresh.sql(say(3));
  // Open while the others are folded.
  await client.query("begin");
  await client.query(say(2).replaceAll("stint.", `"${fresh.schema}".`));
  for (const rows of [3, 3, 9, 1]) await fresh.sql(say(rows));

  const folded = [await foldSome()];
  expect(await live()).toBe("19");
  folded.push(await foldSome());
  await client.query("commit");
  expect(await live()).toBe("21");
  while (folded.at(-1) !== 0) {
    folded.push(await foldSome());
    expect(await live()).toBe("21");
  }

  expect(folded).toEqual([6, 12, 3, 0]);
  expect(await deltas(fresh)).toBe(0);
});

test("a clock that was set back does not stop folding", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  await fresh.sql(`update stint.tally_fold set at = clock_timestamp() + interval '1 hour'`);

  expect(await fold(fresh.db, 5_000)).toBe(1);
});

test("the depth reads running jobs by index under any statistics", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 200 }, () => ({})),
  );
  await take(fresh.db, { limit: 200 });
  await fresh.sql(`analyze stint.job`);
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select stint.new_id(), 'work', 'main', 'ready', now(), now(), '1' from generate_series(1, 20000)`,
  );
  const [row] = await fresh.sql<{ "QUERY PLAN": { Plan: PlanNode }[] }>(
    `explain (format json) select * from stint.depth`,
  );

  const nodes = flatten(row!["QUERY PLAN"][0]!.Plan).filter((node) => node["Relation Name"] === "job");
  expect(nodes.map((node) => node["Node Type"])).toEqual(["Index Scan"]);
});

test.each([
  ["depths", async (fresh: Fresh) => (await depths(fresh.db))[0]?.ready],
  ["standing", async (fresh: Fresh) => (await standing(fresh.db)).depth[0]?.ready],
])("reading %s folds some deltas when no worker has folded for long", async (_, ready) => {
  const fresh = await freshSchema();
  const say = async (rows: number): Promise<void> => {
    await fresh.sql(
      `insert into stint.tally_delta (queue, kind, priority, live) select 'main', 'work', 0, 1 from generate_series(1, ${rows})`,
    );
  };
  await say(20_000);
  expect([await ready(fresh), await deltas(fresh)]).toEqual([20_000, 20_000]);
  await say(60_000);
  await say(1);
  expect([await ready(fresh), await deltas(fresh)]).toEqual([80_001, 1]);
  expect([await ready(fresh), await deltas(fresh)]).toEqual([80_001, 1]);
});

test("a recount blocks no session, and concurrent commits are counted once", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  const client = await adminClient(fresh.url);
  await client.query("begin");
  await client.query(`select "${fresh.schema}".enqueue('late', '1', '{"queue": "main"}')`);
  await fresh.sql(
    `insert into stint.tally select fold, 'main', 'never', 0, 99, 0, 0, 0, 0 from stint.tally_fold`,
  );
  await recount(fresh.db);
  await client.query("commit");
  await client.end();

  expect(await tallied(fresh)).toEqual(await counted(fresh));
  await fold(fresh.db, 0);
  expect(await tallied(fresh)).toEqual(await counted(fresh));
});

/** Pages of the deltas' index and table that this reads. */
async function pagesRead(fresh: Fresh, text: string): Promise<number> {
  const [row] = await fresh.sql<{ "QUERY PLAN": { Plan: PlanNode }[] }>(
    `explain (analyze, buffers, timing off, format json) ${text}`,
  );
  return flatten(row!["QUERY PLAN"][0]!.Plan)
    .filter((node) => (node["Relation Name"] ?? node["Index Name"] ?? "").startsWith("tally_delta"))
    .reduce((sum, node) => sum + (node["Shared Hit Blocks"] ?? 0) + (node["Shared Read Blocks"] ?? 0), 0);
}

/** All pages that this has in hand, and the statements within it. */
async function allPages(fresh: Fresh, text: string): Promise<number> {
  const [row] = await fresh.sql<{ "QUERY PLAN": { Plan: PlanNode }[] }>(
    `explain (analyze, buffers, timing off, format json) ${text}`,
  );
  const root = row!["QUERY PLAN"][0]!.Plan;
  return (root["Shared Hit Blocks"] ?? 0) + (root["Shared Read Blocks"] ?? 0);
}

test.each([
  ["reads", false],
  ["has written something", true],
])("an open transaction that %s makes neither folds nor depth reads slower", async (_, writes) => {
  const fresh = await freshSchema();
  await fresh.sql(`alter table stint.tally_delta set (autovacuum_enabled = false)`);
  const end = await openTransaction(fresh, writes);
  const unfolded = `select * from stint.tally_unfolded`;
  const once = async (): Promise<number> => {
    await fresh.sql(
      `insert into stint.tally_delta (queue, kind, priority, live) select 'main', 'work', 0, 1 from generate_series(1, 2000)`,
    );
    await fold(fresh.db, 0);
    // As many as there usually are: one delta since the last fold.
    await fresh.sql(
      `insert into stint.tally_delta (queue, kind, priority, live) values ('main', 'work', 0, 1)`,
    );
    return await pagesRead(fresh, unfolded);
  };
  const pages: number[] = [];
  const folding: number[] = [];
  for (let round = 0; round < 10; round++) {
    pages.push(await once());
    folding.push(await allPages(fresh, `select stint.fold_tallies()`));
  }
  await end();

  // All of them would be hundreds of pages by then.
  expect(Math.max(...pages)).toBeLessThanOrEqual(20);
  // Walking past the 16,000 folded deltas would read 16,000 pages more, in each of the last folds. The rows it writes leave a few old
  // versions. A fold in which a new minute begins also samples, which reads hundreds of pages.
  expect(Math.min(...folding.slice(-3))).toBeLessThanOrEqual(Math.max(...folding.slice(0, 3)) + 500);
  const [sum] = await fresh.sql<{ live: string }>(`select live::text from stint.depth`);
  expect(sum!.live).toBe(String(10 * 2_001));
});
