import { expect, test } from "vitest";
import { parkReasons, parkRules } from "#stint/model/park-reasons.js";
import { claimQuarantined } from "#stint/sql/claim.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { park, type Park } from "#stint/sql/park.js";
import { promote } from "#stint/sql/promote.js";
import { settledByOwner } from "#stint/sql/settled.js";
import { newId } from "#stint/runtime/new-id.js";
import type { Fence } from "#stint/model/job.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { idleCheck } from "../support/idle-check.ts";
import { addOne, auditInfo, running, stored, take } from "./jobs.ts";

const review = (fence: Fence, until: Park["until"] = null): Park => ({
  fence,
  reason: "review",
  note: "the amount looks wrong",
  until,
  ending: { outcome: "parked" },
});

test("a parked job spends no attempt, keeps its note, and no claim takes it", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);

  expect(await park(fresh.db, [review(fence)])).toEqual(new Set([fence]));

  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "parked",
    park_reason: "review",
    park_until: null,
    reason: "the amount looks wrong",
    attempts: 0,
    interruptions: 1,
    worker: null,
    lease_id: null,
    log: [{ outcome: "parked", lease: fence.leaseId }],
  });
  expect(await take(fresh.db)).toEqual([]);
  expect(await takeAlone(fresh)).toEqual([]);
  expect((await promote(fresh.db, 10)).promoted).toBe(0);
  expect(await settledByOwner(fresh.db, [fence])).toEqual(new Set([fence]));
});

async function takeAlone({ db }: Fresh): Promise<unknown[]> {
  const lease = { worker: "w", leaseId: newId(), leaseMs: 30_000, kindLeaseMs: {} };
  return await claimQuarantined(db, { ...lease, queues: ["main"], kinds: ["work"], waitedMs: 0 });
}

test("a stale fence parks nothing, and neither does a fence of a job to be cancelled", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await cancel(fresh.db, fence.job, auditInfo());

  const wrong = { ...fence, leaseId: newId() };
  expect(await park(fresh.db, [review(wrong), review(fence)])).toEqual(new Set());
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "running", park_reason: null });
});

test("a job parked until a time becomes ready at that time, and not before", async () => {
  const fresh = await freshSchema();
  const [hour, past] = [await running(fresh.db), await running(fresh.db)];
  await park(fresh.db, [review(hour, 3_600_000), review(past, new Date("2020-01-01T00:00:00Z"))]);

  const { promoted, nextDueMs, queues } = await promote(fresh.db, 10);

  expect({ promoted, queues }).toEqual({ promoted: 1, queues: ["main"] });
  expect(nextDueMs).toBeGreaterThan(3_000_000);
  expect(await stored(fresh, past.job)).toMatchObject({
    state: "ready",
    park_reason: null,
    park_until: null,
    reason: null,
  });
  expect(await stored(fresh, hour.job)).toMatchObject({ state: "parked", park_reason: "review" });
  // An idle worker learns of the time from its one statement.
  const seen = await idleCheck(fresh.db, { queues: [], kinds: ["work"], since: "-infinity" });
  expect(seen.dueInMs["promote"]).toBeGreaterThan(3_000_000);
});

test.each(parkReasons)("runNow lifts a job parked for %s only if its rule allows it", async (reason) => {
  const fresh = await freshSchema();
  const [one, many] = [await addOne(fresh.db), await addOne(fresh.db)];
  await fresh.sql(`update stint.job set state = 'parked', park_reason = $1, reason = 'held'`, [reason]);

  const queue = await runNow(fresh.db, one, auditInfo());
  const acted = await actOnMany(fresh.db, "run-now", {
    ids: [many],
    auditIds: [newId()],
    states: ["parked"],
    until: "infinity",
    actor: "tester",
    reason: "because",
  });

  const { runNow: lifts } = parkRules[reason];
  expect([queue, acted.length]).toEqual(lifts ? ["main", 1] : [undefined, 0]);
  for (const id of [one, many]) {
    expect(await stored(fresh, id)).toMatchObject(
      lifts
        ? { state: "ready", park_reason: null, reason: null }
        : { state: "parked", park_reason: reason, reason: "held" },
    );
  }
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(lifts ? 2 : 0);
});

test("a parked job can be cancelled and replayed, and is then no longer parked", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await park(fresh.db, [review(fence, 3_600_000)]);

  expect(await cancel(fresh.db, fence.job, auditInfo("not needed"))).toBe("waiting");
  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "cancelled",
    park_reason: null,
    reason: "not needed",
  });
  await replay(fresh.db, fence.job, auditInfo());
  expect(await stored(fresh, fence.job)).toMatchObject({
    state: "ready",
    park_reason: null,
    park_until: null,
  });
});
