import { expect, test } from "vitest";
import { promote } from "#stint/sql/promote.js";
import { requeue } from "#stint/sql/requeue.js";
import { freshSchema } from "../support/fresh.ts";
import { add, addOne, running, stored, take } from "./jobs.ts";
import { session } from "./sessions.ts";

test("due jobs become ready in batches, longest due first, and keep their run time", async () => {
  const fresh = await freshSchema();
  const ids = (await add(fresh.db, [{ delay_ms: 10_000 }, { delay_ms: 20_000 }, { delay_ms: 30_000 }])).map(
    (row) => row.id,
  );
  await fresh.sql(`update stint.job set run_at = run_at - interval '1 hour'`);

  const first = await promote(fresh.db, 2);
  const states = await Promise.all(ids.map(async (id) => (await stored(fresh, id)).state));
  const second = await promote(fresh.db, 2);

  expect(first).toMatchObject({ promoted: 2, queues: ["main"], nextDueMs: null });
  expect(states).toEqual(["ready", "ready", "scheduled"]);
  expect(second.promoted).toBe(1);
  expect((await take(fresh.db)).map((job) => job.fence.job)).toEqual(ids);
});

test("retries come due like scheduled jobs", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await requeue(fresh.db, [
    { fence, state: "retrying", delayMs: 60_000, countsAs: "attempt", ending: { outcome: "failed" } },
  ]);
  await fresh.sql(`update stint.job set run_at = now() - interval '1 s'`);

  expect((await promote(fresh.db, 10)).promoted).toBe(1);
  expect((await stored(fresh, fence.job)).state).toBe("ready");
});

test("jobs that are not due stay, and the time to the next one is returned", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { delay_ms: 60_000 });
  await addOne(fresh.db, { delay_ms: 600_000 });

  const result = await promote(fresh.db, 10);

  expect(result.promoted).toBe(0);
  expect(result.nextDueMs).toBeGreaterThan(50_000);
  expect(result.nextDueMs).toBeLessThanOrEqual(60_000);
  expect((await stored(fresh, id)).state).toBe("scheduled");
});

test("two promoters share the work and never wait for each other", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 4 }, () => ({ delay_ms: 10_000 })),
  );
  await fresh.sql(`update stint.job set run_at = run_at - interval '1 hour'`);
  const other = await session(fresh);
  await other.begin();

  const theirs = await promote(other, 3);
  const ours = await promote(fresh.db, 3);
  await other.commit();

  expect([theirs.promoted, ours.promoted]).toEqual([3, 1]);
});
