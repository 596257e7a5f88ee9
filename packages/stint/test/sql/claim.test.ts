import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { claimQuarantined } from "#stint/sql/claim.js";
import { freshSchema } from "../support/fresh.ts";
import { add, addOne, stored, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

test("jobs are claimed by priority, then run time, then id", async () => {
  const { db } = await freshSchema();
  const at = (second: number): string => `2020-01-01T00:00:0${second}Z`;
  const [a, b, c, d, e] = [1, 2, 3, 4, 5].map((n) => `00000000-0000-7000-8000-00000000000${n}`);
  await add(db, [
    { id: e!, priority: 0, run_at: at(1) },
    { id: d!, priority: 0, run_at: at(1) },
    { id: c!, priority: 5, run_at: at(0) },
    { id: b!, priority: 0, run_at: at(0) },
    { id: a!, priority: -1, run_at: at(9) },
  ]);

  const first = await take(db, { limit: 3 });
  const second = await take(db, { limit: 3 });

  expect(first.map((job) => job.fence.job)).toEqual([a, b, d]);
  expect(second.map((job) => job.fence.job)).toEqual([e, c]);
});

test("only served kinds are claimed, and each queue gives no more than its limit", async () => {
  const { db } = await freshSchema();
  const rows = (queue: string, kind: string, count: number): object[] =>
    Array.from({ length: count }, () => ({ queue, kind }));
  await add(db, [
    ...rows("a", "work", 5),
    ...rows("b", "work", 5),
    ...rows("a", "other", 5),
    ...rows("c", "work", 5),
  ]);

  const jobs = await take(db, {
    takes: [
      { queue: "a", limit: 3 },
      { queue: "b", limit: 9 },
      { queue: "nothing-here", limit: 4 },
    ],
  });

  const count = (queue: string): number => jobs.filter((job) => job.queue === queue).length;
  expect([count("a"), count("b"), count("c")]).toEqual([3, 5, 0]);
  expect(new Set(jobs.map((job) => job.kind))).toEqual(new Set(["work"]));
});

test("a claim opens an attempt: counters, lease and fence", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, {
    max_attempts: 7,
    timeout_ms: 5_000,
    payload: { a: 1 },
    meta: { trace: "t" },
  });
  const leaseId = newId();

  const [job] = await take(fresh.db, { leaseId, worker: "w9", leaseMs: 60_000 });

  expect(job).toMatchObject({
    fence: { job: id, epoch: 1, leaseId },
    attempt: 1,
    maxAttempts: 7,
    timeoutMs: 5_000,
    leaseMs: 60_000,
    payload: '{"a": 1}',
    meta: { trace: "t" },
  });
  const row = await stored(fresh, id);
  expect(row).toMatchObject({ state: "running", attempts: 1, epoch: "1", lease_id: leaseId, worker: "w9" });
  const [lease] = await fresh.sql<{ ms: number }>(
    `select extract(epoch from lease_until - claimed_at)::float8 * 1000 as ms from stint.job`,
  );
  expect(lease?.ms).toBeCloseTo(60_000, -2);
});

test("a job's lease overrides its kind's, which overrides the worker's", async () => {
  const { db } = await freshSchema();
  await add(db, [{ kind: "a", lease_ms: 5_000 }, { kind: "b" }, { kind: "c" }]);

  const jobs = await take(db, {
    kinds: ["a", "b", "c"],
    kindLeaseMs: { a: 9_000, b: 7_000 },
    leaseMs: 30_000,
  });

  expect(Object.fromEntries(jobs.map((job) => [job.kind, job.leaseMs]))).toEqual({
    a: 5_000,
    b: 7_000,
    c: 30_000,
  });
});

test("scheduled, retrying and parked jobs are not claimed", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ delay_ms: 60_000 }, {}, {}]);
  await fresh.sql(`update stint.job set state = 'parked', park_reason = 'review' where state = 'ready'`);

  expect(await take(fresh.db)).toEqual([]);
});

test("two concurrent claims never share a job and never wait for each other", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 30 }, () => ({})),
  );
  const [one, two] = await sessions(fresh, 2);

  await one!.begin();
  await two!.begin();
  const mine = await take(one!, { limit: 10 });
  const theirs = await take(two!, { limit: 10 });
  await one!.rollback();
  await two!.commit();
  const after = await take(fresh.db, { limit: 30 });

  expect(mine).toHaveLength(10);
  expect(theirs).toHaveLength(10);
  expect(new Set([...mine, ...theirs].map((job) => job.fence.job)).size).toBe(20);
  // What the rolled back claim had taken is there again, first in line.
  expect(after).toHaveLength(20);
  expect(after.slice(0, 10).map((job) => job.fence.job)).toEqual(mine.map((job) => job.fence.job));
});

test("a claim frees a dedupe key held until the start, not one held until the end", async () => {
  const { db } = await freshSchema();
  await add(db, [
    { dedupe_key: "s", dedupe_until: "started" },
    { dedupe_key: "f", dedupe_until: "finished" },
  ]);
  await take(db);

  const again = await add(db, [
    { dedupe_key: "s", dedupe_until: "started" },
    { dedupe_key: "f", dedupe_until: "finished" },
  ]);

  expect(again.map((row) => row.created)).toEqual([true, false]);
});

test("a quarantined job is claimed alone, by a worker that serves it, after its delay", async () => {
  const fresh = await freshSchema();
  const ids = (await add(fresh.db, [{}, {}])).map((row) => row.id);
  await fresh.sql(
    `update stint.job set state = 'parked', park_reason = 'quarantine', run_at = now() - interval '5 s'`,
  );
  const ask = { worker: "w1", leaseId: newId(), kindLeaseMs: {}, leaseMs: 30_000 };

  const tooSoon = await claimQuarantined(fresh.db, {
    ...ask,
    queues: ["main"],
    kinds: ["work"],
    waitedMs: 60_000,
  });
  const otherKind = await claimQuarantined(fresh.db, {
    ...ask,
    queues: ["main"],
    kinds: ["other"],
    waitedMs: 0,
  });
  const otherQueue = await claimQuarantined(fresh.db, {
    ...ask,
    queues: ["side"],
    kinds: ["work"],
    waitedMs: 0,
  });
  const [job] = await claimQuarantined(fresh.db, {
    ...ask,
    queues: ["main"],
    kinds: ["work"],
    waitedMs: 1_000,
  });

  expect([tooSoon, otherKind, otherQueue]).toEqual([[], [], []]);
  expect(ids).toContain(job?.fence.job);
  expect(await stored(fresh, job!.fence.job)).toMatchObject({
    state: "running",
    park_reason: "quarantine",
    attempts: 1,
  });
  expect(await fresh.sql(`select id from stint.job where state = 'parked'`)).toHaveLength(1);
});

test("counters past two billion are returned exactly", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { lease_ms: 86_400_000 });
  await fresh.sql(`update stint.job set epoch = 9007199254740990`);

  const [job] = await take(fresh.db);

  expect(job?.fence).toMatchObject({ job: id, epoch: Number.MAX_SAFE_INTEGER });
});
