import { expect, test } from "vitest";
import { silentLogger } from "#stint/index.js";
import { ConnectionLost, type Db } from "#stint/db/db.js";
import { Meter } from "#stint/telemetry/meter.js";
import {
  flush,
  rollUpSeries,
  samples,
  seriesSteps,
  type Sample,
  type SeriesRow,
  type SeriesStep,
  type Step,
} from "#stint/sql/series.js";
import { fold } from "#stint/sql/tallies.js";
import { pruneSeries } from "#stint/sql/prune.js";
import { tallies as talliesService } from "#stint/upkeep/tallies.js";
import { idleCheck } from "../support/idle-check.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { release } from "#stint/sql/release.js";
import { add, addOne, take } from "../sql/jobs.ts";

const vitals = { busy: 1, slots: 4, waiting: 0, lagMs: 2, rssBytes: 1_000 };

async function send(fresh: Fresh, worker: string, rows: readonly SeriesRow[]): Promise<void> {
  await flush(fresh.db, { worker, vitals, rows, tenants: [], kinds: [] });
}

/** The sum of all counts of the last hour. */
async function hour(
  fresh: Fresh,
  stepSeconds: Step = 3_600,
  kind: string | null = null,
): Promise<SeriesStep> {
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

/** How each queue was last sampled. */
async function lastSamples(fresh: Fresh, kind: string | null = null): Promise<Sample[]> {
  const all = await samples(fresh.db, { stepSeconds: 10, backMs: 3_700_000, queue: null, kind });
  return [...new Map(all.map((sample) => [sample.queue, sample])).values()];
}

test("the counts of two workers add up in every step and bucket", async () => {
  const fresh = await freshSchema();
  const row = { queue: "a", kind: "mail" };
  await send(fresh, "one", [{ ...row, claimed: 3, succeeded: 2, run: [1, 2, 3], runMs: 5 }]);
  await send(fresh, "two", [
    { ...row, claimed: 4, dead: 1, run: [10, 20, 30, 40], runMs: 7 },
    { queue: "b", kind: "mail", claimed: 100 },
  ]);
  await send(fresh, "one", [{ ...row, wait: [5], waitMs: 1 }]);

  for (const step of [10, 60, 600, 3_600] as const) {
    const sum = await hour(fresh, step);
    expect(sum).toMatchObject({ claimed: 107, succeeded: 2, dead: 1, failed: 0, arrived: 0 });
    expect(sum.run.slice(0, 5)).toEqual([11, 22, 33, 40, 0]);
    expect(sum.wait.slice(0, 2)).toEqual([5, 0]);
    expect(sum.run).toHaveLength(21);
  }
});

test("twenty workers that flush the same kinds at once lose nothing and never deadlock", async () => {
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

test("a flush stores a worker's vitals and returns the run times of its kinds", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, '1', '{}', '{}')`,
  );
  await send(fresh, "w", [
    { queue: "a", kind: "mail", run: [7, 0, 1], runMs: 9 },
    { queue: "b", kind: "mail", run: [1], runMs: 9 },
    { queue: "a", kind: "other", run: [1], runMs: 9 },
  ]);
  const { runs } = await flush(fresh.db, { worker: "w", vitals, rows: [], tenants: [], kinds: ["mail"] });

  expect([...runs.keys()]).toEqual(["mail"]);
  expect(runs.get("mail")?.slice(0, 4)).toEqual([8, 0, 1, 0]);
  expect(await fresh.sql(`select vitals from stint.worker`)).toEqual([{ vitals }]);
});

test("a fold records arrivals and samples the depth", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}, { delay_ms: 60_000 }, { kind: "other" }]);
  await fresh.sql(
    `update stint.job set run_at = now() - interval '1 minute' where state = 'ready' and kind = 'other'`,
  );
  await take(fresh.db, { limit: 1 });
  await fold(fresh.db, 0);

  expect(await hour(fresh, 10, "work")).toMatchObject({ arrived: 3 });
  const [work] = await lastSamples(fresh, "work");
  expect(work).toMatchObject({ ready: 1, running: 1 });
  // Of the whole queue.
  expect(work!.oldestReadyMs).toBeGreaterThanOrEqual(60_000);
  expect(await hour(fresh, 10, "other")).toMatchObject({ arrived: 1 });
  expect(await lastSamples(fresh, "other")).toMatchObject([{ ready: 1, running: 0 }]);
});

test("a fold without a sample records arrivals; the next sample misses nothing", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { queue: "other" });
  await fold(fresh.db, 0);
  await add(fresh.db, [{}, {}]);
  await end(fresh, "other");

  expect(await fold(fresh.db, 0, false)).toBe(2);
  expect(await hour(fresh, 10)).toMatchObject({ arrived: 3 });
  expect(await lastSamples(fresh)).toMatchObject([{ queue: "other", ready: 1 }]);
  await addOne(fresh.db, { queue: "third" });
  await fold(fresh.db, 0);
  expect(
    (await lastSamples(fresh)).toSorted((a, b) => ((a.queue ?? "") < (b.queue ?? "") ? -1 : 1)),
  ).toMatchObject([
    { queue: "main", ready: 2 },
    { queue: "other", ready: 0, oldestReadyMs: null },
    { queue: "third", ready: 1 },
  ]);
});

/** All jobs of a queue end. */
async function end(fresh: Fresh, queue: string): Promise<void> {
  await fresh.sql(
    `with gone as (delete from stint.job where queue = $1 returning kind)
     insert into stint.tally_delta (queue, kind, priority, live) select $1, kind, 0, -1 from gone`,
    [queue],
  );
}

test("a sample records that a queue became empty", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  await fold(fresh.db, 0);
  await end(fresh, "main");
  await fold(fresh.db, 0);

  expect(await lastSamples(fresh)).toMatchObject([{ ready: 0, running: 0, oldestReadyMs: null }]);
});

test("a fold samples queues that changed or run, with all kinds; hourly all queues", async () => {
  const fresh = await freshSchema();
  const sampled = async (): Promise<unknown[]> => {
    await fold(fresh.db, 0);
    const rows = await fresh.sql(
      `select queue, kind, ready::integer, running::integer from stint.series order by queue, kind`,
    );
    await fresh.sql(`delete from stint.series`);
    return rows.map(({ queue, kind, ready, running }) => [queue, kind, ready, running].join(" "));
  };
  await addOne(fresh.db, { queue: "later", delay_ms: 3_600_000 });
  await add(fresh.db, [{ queue: "still" }, { queue: "busy" }, { queue: "busy", kind: "other" }]);
  expect(await sampled()).toEqual(["busy other 1 0", "busy work 1 0", "later work 0 0", "still work 1 0"]);

  const [taken] = await take(fresh.db, { takes: [{ queue: "busy", limit: 1 }] });
  await addOne(fresh.db);
  expect(await sampled()).toEqual(["busy other 1 0", "busy work 0 1", "main work 1 0"]);

  // Released, which inserts no delta.
  await release(fresh.db, [taken!.fence]);
  await addOne(fresh.db);
  expect(await sampled()).toEqual(["busy other 1 0", "busy work 1 0", "main work 2 0"]);
  await addOne(fresh.db);
  expect(await sampled()).toEqual(["main work 3 0"]);

  await fresh.sql(`update stint.tally_fold set framed_at = framed_at - interval '1 hour'`);
  await addOne(fresh.db);
  expect(await sampled()).toEqual(["busy other 1 0", "busy work 1 0", "main work 4 0", "still work 1 0"]);
});

test("claims and releases are sampled although they insert no delta", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}]);
  await fold(fresh.db, 0);
  expect(await lastSamples(fresh)).toMatchObject([{ ready: 2, running: 0 }]);

  const taken = await take(fresh.db);
  expect(await fold(fresh.db, 0)).toBe(0);
  expect(await lastSamples(fresh)).toMatchObject([{ ready: 0, running: 2, oldestReadyMs: null }]);
  await release(
    fresh.db,
    taken.map(({ fence }) => fence),
  );
  expect(await fold(fresh.db, 0)).toBe(0);
  expect(await lastSamples(fresh)).toMatchObject([{ ready: 2, running: 0 }]);
});

test("all queues are sampled hourly; other folds without changes write nothing", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "unserved" }]);
  const look = { queues: [], kinds: [], since: new Date().toISOString() };
  expect(await idleCheck(fresh.db, look)).toMatchObject({ dueInMs: { tallies: 0 } });
  await fold(fresh.db, 0);
  expect(await idleCheck(fresh.db, look)).toMatchObject({ dueInMs: { tallies: null } });
  const folds = async (): Promise<unknown> => await fresh.sql(`select fold from stint.tally_fold`);
  const before = await folds();
  await fold(fresh.db, 0);
  expect(await folds()).toEqual(before);

  await age(fresh, "1 hour");
  await fresh.sql(`update stint.tally_fold set framed_at = framed_at - interval '1 hour'`);
  expect(await idleCheck(fresh.db, look)).toMatchObject({ dueInMs: { tallies: 0 } });
  await fold(fresh.db, 0);
  expect(
    await fresh.sql(`select queue, ready::integer from stint.series where at > now() - interval '1 minute'`),
  ).toEqual([{ queue: "unserved", ready: 1 }]);
  expect(await idleCheck(fresh.db, look)).toMatchObject({ dueInMs: { tallies: null } });
});

/** Makes all recorded counts this much older. */
async function age(fresh: Fresh, interval: string): Promise<void> {
  await fresh.sql(`update stint.series set at = at - $1::interval`, [interval]);
}

test("steps are rolled up once; wide reads take later counts from narrower steps", async () => {
  const fresh = await freshSchema();
  const rows = (claimed: number): SeriesRow[] => [
    { queue: "a", kind: "x", claimed, wait: [claimed], waitMs: 2 },
    { queue: "a", kind: "y", claimed: 1 },
  ];
  const stored = async (): Promise<Record<string, number>> =>
    Object.fromEntries(
      (
        await fresh.sql<{ step: string; n: number }>(
          `select step::text, sum(claimed)::integer as n from stint.series group by step`,
        )
      ).map(({ step, n }) => [step, n]),
    );
  await send(fresh, "w", rows(10));
  await age(fresh, "2 hours");
  await send(fresh, "w", rows(20));
  // A step is rolled up some seconds after its end. One hour would not be enough at the beginning of an hour.
  await age(fresh, "62 minutes");
  await rollUpSeries(fresh.db);
  expect(await stored()).toEqual({ 10: 32, 60: 32, 600: 32, 3600: 32 });

  await send(fresh, "w", rows(40));
  await rollUpSeries(fresh.db);
  // The current step is not over.
  expect(await stored()).toEqual({ 10: 73, 60: 32, 600: 32, 3600: 32 });
  for (const stepSeconds of [10, 60, 600, 3_600] as const) {
    const all = await seriesSteps(fresh.db, { stepSeconds, backMs: 20_000_000, queue: null, kind: "x" });
    const sorted = all.toSorted((a, b) => a.at.getTime() - b.at.getTime());
    expect(sorted.map(({ claimed }) => claimed)).toEqual([10, 20, 40]);
    expect(sorted.map(({ wait }) => wait[0])).toEqual([10, 20, 40]);
    expect(sorted.every(({ at }) => at.getTime() % (stepSeconds * 1_000) === 0)).toBe(true);
  }
  await age(fresh, "5 minutes");
  await rollUpSeries(fresh.db);
  await rollUpSeries(fresh.db);
  expect(await stored()).toMatchObject({ 10: 73, 60: 73 });
  expect(await hour(fresh, 60, "x")).toMatchObject({ claimed: 40 });
});

test("old points are pruned in batches, each step by its own retention", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind)
     select step, now() - age, 'a', 'k' || n
     from (values (10, interval '5 h'), (10, '7 h'), (60, '1 d'), (60, '3 d'), (600, '7 d'), (600, '9 d'), (3600, '89 d'), (3600, '91 d'),
         (60, '0'), (600, '0'), (3600, '0')) s (step, age), -- so nothing is left to be rolled up
       generate_series(1, 10) n`,
  );
  await fresh.sql(
    `insert into stint.tenant_usage (at, tenant, ended, run_ms)
     values (now() - interval '2 h', 'new', 1, 1), (now() - interval '25 h', 'old', 1, 1)`,
  );

  expect([
    await pruneSeries(fresh.db, 8),
    await pruneSeries(fresh.db, 100),
    await pruneSeries(fresh.db, 100),
  ]).toEqual([8, 32, 0]);
  expect(
    await fresh.sql(`select step, count(*)::integer as n from stint.series group by 1 order by 1`),
  ).toEqual([
    { step: 10, n: 10 },
    { step: 60, n: 20 },
    { step: 600, n: 20 },
    { step: 3_600, n: 20 },
  ]);
  expect(await fresh.sql(`select tenant from stint.tenant_usage`)).toEqual([{ tenant: "new" }]);
});

/** A tallies service that sends through `db`, and is never started. */
function duty(db: Db, meter: Meter): ReturnType<(typeof talliesService)["create"]> {
  return talliesService.create({
    db,
    worker: { id: "w", host: "h", pid: 1, version: "v", pools: {}, kinds: [] },
    meter,
    vitals: () => vitals,
    onRunBaseline: () => undefined,
    logger: silentLogger,
  });
}

test("a refused flush is sent again; one that may have arrived is not", async () => {
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

test("without counts, nothing is sent", async () => {
  const fresh = await freshSchema();
  const sent: string[] = [];
  const db = {
    schema: fresh.schema,
    run: async ({ name }: { name: string }) => {
      sent.push(name);
      return await Promise.resolve([{ runs: null, now_ms: 0 }]);
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
