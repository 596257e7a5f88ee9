import { expect, test } from "vitest";
import { isTooEarly, isTooLate, ServerClock } from "#stint/db/server-clock.js";
import type { EnqueueRow } from "#stint/sql/enqueue.js";
import { enqueue } from "#stint/sql/enqueue.js";
import { newId } from "#stint/runtime/new-id.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const rowOf = (row: Partial<EnqueueRow> = {}) => ({
  row: { id: newId(), kind: "work", queue: "main", ...row },
  payload: "{}",
  meta: undefined,
});

async function serverMs(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ ms: number }>(
    "select extract(epoch from clock_timestamp())::float8 * 1000 as ms",
  );
  return row!.ms;
}

const sends: Record<string, ReturnType<typeof rowOf>[]> = {
  "one job": [rowOf()],
  "a job with options": [rowOf({ priority: 3 })],
  "150 jobs": Array.from({ length: 150 }, () => rowOf()),
  "a deduplicated job": [rowOf({ dedupe_key: "k", dedupe_until: "finished" })],
  "a job deduplicated for a time": [rowOf({ dedupe_key: "w", dedupe_ms: 60_000 })],
  "a repeat": [rowOf({ again: true })],
};

test.each(Object.entries(sends))("after its deadline %s is refused and not written", async (_, rows) => {
  const fresh = await freshSchema();
  const now = await serverMs(fresh);
  const clock = new ServerClock(() => 0, 0);

  const error: unknown = await enqueue(fresh.db, rows, true, { until: now - 1 }).catch((e: unknown) => e);

  expect(isTooLate(error)).toBe(true);
  clock.learnFrom(error, clock.localMs);
  expect(Math.abs(clock.nowMs() - now)).toBeLessThan(60_000);
  expect(await fresh.sql("select from stint.jobs")).toEqual([]);
  expect(await fresh.sql("select from stint.dedupe_window")).toEqual([]);
  expect(await fresh.sql("select from stint.depth where live <> 0")).toEqual([]);
  await enqueue(fresh.db, rows, true, { until: now + 3_600_000 });
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(rows.length);
});

test("an enqueue that waits for a key past its deadline is refused", async () => {
  const fresh = await freshSchema();
  const [first, late] = await sessions(fresh, 2);
  const row = (): ReturnType<typeof rowOf> => rowOf({ dedupe_key: "k", dedupe_until: "finished" });
  await first!.begin();
  await enqueue(first!, [row()], false);
  const until = (await serverMs(fresh)) + 300;
  const waiting = enqueue(late!, [row()], false, { until }).catch((e: unknown) => e);
  await late!.blocked();
  while ((await serverMs(fresh)) <= until);
  await first!.rollback();

  expect(isTooLate(await waiting)).toBe(true);
  expect(await fresh.sql("select from stint.jobs")).toEqual([]);
});

test("a repeated enqueue is refused before the first one's deadline, accepted after it", async () => {
  const fresh = await freshSchema();
  const now = await serverMs(fresh);
  const rows = [rowOf({ again: true }), rowOf({ dedupe_key: "k", dedupe_until: "finished" })];

  const error: unknown = await enqueue(fresh.db, rows, false, { after: now + 3_600_000 }).catch(
    (e: unknown) => e,
  );
  expect(isTooEarly(error)).toBe(true);
  expect(await fresh.sql("select from stint.jobs")).toEqual([]);
  expect(await enqueue(fresh.db, rows, false, { after: now - 1 })).toHaveLength(2);
});

test("a deadline is read correctly under any time zone and date style", async () => {
  const fresh = await freshSchema();
  const [session] = await sessions(fresh, 1);
  const now = await serverMs(fresh);
  for (const style of ["ISO, DMY", "SQL, MDY", "German"]) {
    await session!.client.query(`set datestyle = '${style}'`);
    await session!.client.query(`set timezone = 'Pacific/Kiritimati'`);
    const error: unknown = await enqueue(session!, [rowOf()], false, { until: now - 1 }).catch(
      (e: unknown) => e,
    );
    expect(isTooLate(error)).toBe(true);
    await enqueue(session!, [rowOf()], false, { until: now + 3_600_000 });
  }
  expect(await take(fresh.db)).toHaveLength(3);
});
