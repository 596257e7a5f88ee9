import { expect, test } from "vitest";
import { series } from "#stint/inspect/series.js";
import type { SeriesPoint } from "#stint/inspect.js";
import { flush, rollUpSeries, samples } from "#stint/sql/series.js";
import { fold } from "#stint/sql/tallies.js";
import { untilHourLasts } from "../support/clock.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne } from "../sql/jobs.ts";

type Asked = Parameters<typeof series>[1];

/** Makes all recorded counts and enqueued jobs this much older. */
async function age(fresh: Fresh, interval: string): Promise<void> {
  await fresh.sql(`update stint.series set at = at - $1::interval`, [interval]);
  await fresh.sql(`update stint.job set run_at = run_at - $1::interval`, [interval]);
  // All queues are sampled in each hour. What is moved into the hour before must not count for this one.
  await fresh.sql(`update stint.tally_fold set framed_at = framed_at - $1::interval`, [interval]);
}

async function points(fresh: Fresh, asked: Asked): Promise<readonly SeriesPoint[]> {
  return (await series(fresh.db, asked)).points;
}

test("an unchanged queue keeps its depth in a chart, and its oldest job grows older", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "still" }, { queue: "still" }, { queue: "still", kind: "other" }]);
  await fold(fresh.db, 0);
  await age(fresh, "10 minutes");
  await addOne(fresh.db);
  // The hour does not turn now.
  await fresh.sql(`update stint.tally_fold set framed_at = 'infinity'`);
  await fold(fresh.db, 0);
  // Not by the second fold: else this would show nothing.
  expect(
    await fresh.sql(`select from stint.series where queue = 'still' and at > now() - interval '5 minutes'`),
  ).toEqual([]);

  const all = await points(fresh, { range: "1h" });
  expect(all.at(-1)).toMatchObject({ ready: 4, running: 0 });
  expect(all.at(-1)!.oldestReadyMs).toBeGreaterThanOrEqual(580_000);
  expect(all.at(-30)).toMatchObject({ ready: 3, running: 0 });
  expect(all.at(-30)!.oldestReadyMs).toBeLessThan(all.at(-20)!.oldestReadyMs!);
  expect(all.at(-90)).toMatchObject({ ready: null, running: null, oldestReadyMs: null });
  for (const range of ["6h", "24h", "7d", "30d"] as const)
    expect((await points(fresh, { range })).at(-1)).toMatchObject({ ready: 4 });
  expect((await points(fresh, { range: "1h", queue: "still" })).at(-1)).toMatchObject({ ready: 3 });
  expect((await points(fresh, { range: "1h", kind: "other" })).at(-1)).toMatchObject({ ready: 1 });
  expect((await points(fresh, { range: "1h", kind: "none" })).at(-1)).toMatchObject({ ready: null });
});

test("a rolled-up age is as of the end of the step, wherever it was sampled", async () => {
  await untilHourLasts();
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "a" }, { queue: "b" }]);
  await fold(fresh.db, 0);
  // Both were sampled in the first seconds of an hour, when their jobs had waited for a minute. Of one the hour saw the end.
  await fresh.sql(
    `update stint.series set at = stint.step_of(now(), 3600) - interval '2 hours', oldest_ready_ms = 60000`,
  );
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind, ready, running)
     values (10, stint.step_of(now(), 3600) - interval '90 minutes', 'b', 'work', 0, 0)`,
  );
  await rollUpSeries(fresh.db);

  const rolled = await fresh.sql(
    `select step, oldest_ready_ms from stint.series where queue = 'a' order by step`,
  );
  // As of the end of each step.
  expect(rolled).toEqual([
    { step: 10, oldest_ready_ms: 60_000 },
    { step: 60, oldest_ready_ms: 110_000 },
    { step: 600, oldest_ready_ms: 650_000 },
    { step: 3_600, oldest_ready_ms: 3_650_000 },
  ]);
  const end = Math.floor(Date.now() / 3_600_000) * 3_600_000 - 3_600_000;
  const at = (await points(fresh, { range: "7d", queue: "a" })).find(
    (one) => one.at.getTime() === end - 3_600_000,
  );
  expect(at).toMatchObject({ ready: 1, oldestReadyMs: 3_650_000 });
  expect((await points(fresh, { range: "7d", queue: "b" })).at(-1)).toMatchObject({
    ready: 0,
    oldestReadyMs: null,
  });
});

test("charts of all queues sum hours in SQL and skip steps with too many samples", async () => {
  await untilHourLasts();
  const fresh = await freshSchema();
  // Each hour is whole; the last two minutes are not over.
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind, ready, running, oldest_ready_ms)
     select 3600, stint.step_of(now(), 3600) - h * interval '1 hour', 'q' || q, 'work', q, 1, 1000 * q
     from generate_series(1, 100) h, generate_series(1, 20) q
     where h > 1 or q > 5`,
  );
  await fresh.sql(
    `insert into stint.series (step, at, queue, kind, ready, running)
     select 10, stint.step_of(now(), 10) - s * interval '10 seconds', 'q' || q, 'work', 100, 0
     from generate_series(0, 3) s, generate_series(19, 20) q`,
  );
  const asked = { stepSeconds: 3_600, backMs: 168 * 3_600_000, queue: null, kind: null } as const;
  const found = await samples(fresh.db, asked);
  // 99 hours, the newest with each of its 15 queues, and what came since.
  expect(found.length).toBeLessThanOrEqual(99 + 15 + 8);
  expect(found[0]).toMatchObject({ queue: null, ready: 210, running: 20, oldestReadyMs: 20_000 });
  const shown = await points(fresh, { range: "7d" });
  expect(shown.at(-3)).toMatchObject({ ready: 210, running: 20 });
  expect(shown.at(-2)).toMatchObject({ ready: 195, running: 15 });
  expect(shown.at(-1)).toMatchObject({ ready: 195 - 39 + 200, running: 13 });
  expect((await points(fresh, { range: "7d", queue: "q3" })).at(-3)).toMatchObject({ ready: 3 });
  expect((await points(fresh, { range: "7d", kind: "none" })).at(-1)).toMatchObject({ ready: null });

  const narrow = { ...asked, stepSeconds: 10, backMs: 3_600_000 } as const;
  const all = await samples(fresh.db, narrow);
  expect(all.every(({ queue }) => queue !== null)).toBe(true);
  const few = await samples(fresh.db, narrow, 5);
  expect(few.some(({ at, ready }) => ready === 7 && at.getTime() % 3_600_000 === 0)).toBe(true);
});

test("a rolled-up step holds its last sample, also of a queue that became empty", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "a" }, { queue: "a", kind: "other" }, { queue: "b" }]);
  await fold(fresh.db, 0);
  await age(fresh, "20 seconds");
  await fresh.sql(
    `with gone as (delete from stint.job where queue = 'a' returning kind)
     insert into stint.tally_delta (queue, kind, priority, live) select 'a', kind, 0, -1 from gone`,
  );
  await fold(fresh.db, 0);
  await age(fresh, "2 hours");
  await rollUpSeries(fresh.db);

  for (const range of ["6h", "24h", "7d"] as const) {
    const known = (await points(fresh, { range })).filter(({ ready }) => ready !== null);
    expect(known.at(-1)).toMatchObject({ ready: 1 });
    expect(known.reduce((sum, { arrived }) => sum + arrived, 0)).toBe(3);
    expect((await points(fresh, { range, queue: "a" })).at(-1)).toMatchObject({
      ready: 0,
      oldestReadyMs: null,
    });
    expect((await points(fresh, { range, kind: "other" })).at(-1)).toMatchObject({
      ready: 0,
      oldestReadyMs: null,
    });
  }
});

test("a wait that ended between two samples still shows in the oldest age", async () => {
  const fresh = await freshSchema();
  const reportWait = async (longestWaitMs: number): Promise<void> => {
    await flush(fresh.db, {
      worker: "w",
      vitals: { busy: 0, slots: 1, waiting: 0, lagMs: 0, rssBytes: 0 },
      rows: [{ queue: "main", kind: "work", claimed: 1, wait: [1], waitMs: 1, longestWaitMs }],
      tenants: [],
      kinds: [],
    });
  };
  await reportWait(250);
  await reportWait(40);
  // Nothing was ready whenever it was sampled.
  await fold(fresh.db, 0);

  const ages = async (asked: Asked): Promise<(number | null)[]> =>
    (await points(fresh, asked)).map(({ oldestReadyMs }) => oldestReadyMs).filter((age) => age !== null);
  expect(Math.max(...((await ages({ range: "1h" })) as number[]))).toBe(250);
  await age(fresh, "3 hours");
  await rollUpSeries(fresh.db);
  expect(await fresh.sql(`select max(longest_wait_ms) as ms from stint.series where step = 3600`)).toEqual([
    { ms: 250 },
  ]);
  for (const range of ["6h", "24h", "7d", "30d"] as const)
    expect(Math.max(...((await ages({ range, kind: "work" })) as number[]))).toBe(250);
});

test("a series reports up to when its steps are complete", async () => {
  const fresh = await freshSchema();
  for (const range of ["1h", "6h", "30d"] as const) {
    const { points: all, stepMs, completeUntil } = await series(fresh.db, { range });
    const begun = all.at(-1)!.at.getTime();
    expect(completeUntil.getTime()).toBeLessThanOrEqual(begun);
    expect(completeUntil.getTime()).toBeGreaterThanOrEqual(begun - stepMs);
    expect(completeUntil.getTime() % stepMs).toBe(0);
  }
});
