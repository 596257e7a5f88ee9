import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { cancel } from "#stint/sql/operate.js";
import { renew } from "#stint/sql/renew.js";
import { finish } from "#stint/sql/finish.js";
import { freshSchema } from "../support/fresh.ts";
import { auditInfo, expire, running, stored } from "./jobs.ts";
import { session } from "./sessions.ts";

test("a held lease is extended from now, by the database's clock", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await expire(fresh, fence.job);

  const result = await renew(fresh.db, [{ ...fence, leaseMs: 45_000 }]);

  expect(result).toEqual([{ ...fence, held: true, renewed: true, cancelRequested: false }]);
  const [left] = await fresh.sql<{ ms: number }>(
    `select extract(epoch from lease_until - clock_timestamp())::float8 * 1000 as ms from stint.job`,
  );
  expect(left?.ms).toBeGreaterThan(30_000);
  expect(left?.ms).toBeLessThanOrEqual(45_000);
});

test("a lease of another epoch, claim or finished job is not held and nothing changes", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const gone = await running(fresh.db);
  await finish(fresh.db, [{ fence: gone, state: "succeeded", result: null, reason: null, ending: null }]);
  const before = await stored(fresh, fence.job);

  const result = await renew(fresh.db, [
    { ...fence, epoch: 2, leaseMs: 90_000 },
    { ...fence, leaseId: newId(), leaseMs: 90_000 },
    { ...gone, leaseMs: 90_000 },
    { job: newId(), epoch: 1, leaseId: newId(), leaseMs: 90_000 },
  ]);

  expect(result.map((one) => one.held)).toEqual([false, false, false, false]);
  expect(await stored(fresh, fence.job)).toEqual(before);
});

test("a stale lease is not renewed together with the job's current one", async () => {
  const { db } = await freshSchema();
  const current = await running(db);
  const stale = { ...current, epoch: current.epoch - 1, leaseId: newId() };

  const results = await renew(db, [
    { ...stale, leaseMs: 30_000 },
    { ...current, leaseMs: 30_000 },
  ]);

  const of = (fence: typeof current) => results.find(({ leaseId }) => leaseId === fence.leaseId);
  expect(of(stale)).toMatchObject({ held: false, renewed: false });
  expect(of(current)).toMatchObject({ held: true, renewed: true });
});

test("a renewal reports a requested cancel", async () => {
  const { db } = await freshSchema();
  const fence = await running(db);
  await cancel(db, fence.job, auditInfo());

  const [result] = await renew(db, [{ ...fence, leaseMs: 30_000 }]);

  expect(result).toMatchObject({ held: true, cancelRequested: true });
});

test("a row locked by another session is skipped: not extended, but still held", async () => {
  const fresh = await freshSchema();
  const free = await running(fresh.db);
  const locked = await running(fresh.db);
  const before = await stored(fresh, locked.job);
  const other = await session(fresh);
  await other.begin();
  await cancel(other, locked.job, auditInfo());

  const result = await renew(fresh.db, [
    { ...locked, leaseMs: 500_000 },
    { ...free, leaseMs: 500_000 },
  ]);
  await other.rollback();

  expect(result.map(({ job, held, renewed }) => ({ job, held, renewed }))).toEqual([
    { job: locked.job, held: true, renewed: false },
    { job: free.job, held: true, renewed: true },
  ]);
  expect((await stored(fresh, locked.job))["lease_until"]).toEqual(before["lease_until"]);
  expect((await stored(fresh, free.job))["lease_until"]).not.toEqual(before["lease_until"]);
});
