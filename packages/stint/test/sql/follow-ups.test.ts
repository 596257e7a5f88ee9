import { expect, test } from "vitest";
import type { Db } from "#stint/db/db.js";
import type { Fence } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import { enqueue } from "#stint/sql/enqueue.js";
import { finish, finishInLent } from "#stint/sql/finish.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { cancel, replay } from "#stint/sql/operate.js";
import { park } from "#stint/sql/park.js";
import { pruneSmall } from "#stint/sql/prune.js";
import { release } from "#stint/sql/release.js";
import { requeue } from "#stint/sql/requeue.js";
import { rescue } from "#stint/sql/rescue.js";
import { succeed } from "#stint/sql/succeed.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { addOne, auditInfo, expire, stored, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const ending = { outcome: "failed" } as const;
const success = (fence: Fence): Parameters<typeof finish>[1][number] => ({
  fence,
  state: "succeeded",
  result: null,
  reason: null,
  ending: null,
});

/** A job, its successor in queue "next", and the fence of its first attempt. */
async function carrier(db: Db, more: Record<string, unknown> = {}): Promise<{ fence: Fence; next: string }> {
  const next = await addCarrier(db, more);
  const [job] = await take(db);
  return { fence: job!.fence, next };
}

async function addCarrier(db: Db, more: Record<string, unknown> = {}): Promise<string> {
  const next = newId();
  await enqueue(
    db,
    [
      {
        row: { id: newId(), kind: "work", queue: "main" },
        payload: "null",
        meta: undefined,
        successor: {
          row: { id: next, kind: "after", queue: "next", ...more },
          payload: '{"n":1}',
          meta: undefined,
        },
      },
    ],
    false,
  );
  return next;
}

async function successors(fresh: Fresh): Promise<string[]> {
  const rows = await fresh.sql<{ id: string }>(`select id from stint.jobs where kind = 'after' order by id`);
  return rows.map(({ id }) => id);
}

const ways: Record<string, [state: string, leave: (fresh: Fresh, fence: Fence) => Promise<unknown>]> = {
  succeed: ["succeeded", ({ db }, fence) => succeed(db, [fence])],
  finish: ["succeeded", ({ db }, fence) => finish(db, [success(fence)])],
  "finish in a handler's transaction": [
    "succeeded",
    ({ db }, fence) => db.transaction((tx) => finishInLent(tx, fence, null)),
  ],
  die: ["dead", ({ db }, fence) => finish(db, [{ ...success(fence), state: "dead", ending }])],
  retry: [
    "retrying",
    ({ db }, fence) =>
      requeue(db, [{ fence, state: "retrying", delayMs: 60_000, countsAs: "attempt", ending }]),
  ],
  "retry, traced": [
    "retrying",
    ({ db }, fence) =>
      requeue(db, [
        { fence, state: "retrying", delayMs: 60_000, countsAs: "attempt", ending, first: "00-a-b-01" },
      ]),
  ],
  release: ["ready", ({ db }, fence) => release(db, [fence])],
  park: [
    "parked",
    ({ db }, fence) => park(db, [{ fence, reason: "review", note: null, until: null, ending }]),
  ],
  rescue: [
    "ready",
    async (fresh, fence) => {
      await expire(fresh, fence.job);
      await rescue(fresh.db, { limit: 10, maxCrashes: 3 });
    },
  ],
  "rescue for the last time": [
    "dead",
    async (fresh, fence) => {
      await expire(fresh, fence.job);
      await rescue(fresh.db, { limit: 10, maxCrashes: 1 });
    },
  ],
  "cancel while it waits": [
    "cancelled",
    async ({ db }, fence) => {
      await release(db, [fence]);
      await cancel(db, fence.job, auditInfo());
    },
  ],
  "cancel many while they wait": [
    "cancelled",
    async ({ db }, fence) => {
      await release(db, [fence]);
      await actOnMany(db, "cancel", {
        ids: [fence.job],
        auditIds: [newId()],
        states: ["ready"],
        until: "infinity",
        actor: "tester",
        reason: "because",
      });
    },
  ],
};

test.each(Object.entries(ways))(
  "follow-ups run once, with the new state: %s",
  async (name, [state, leave]) => {
    const fresh = await freshSchema();
    await fresh.sql(`create table stint.ran (id uuid, state text)`);
    await fresh.sql(
      `create or replace function stint.run_follow_ups(p_ids uuid[], p_states stint.job_state[]) returns integer
     language plpgsql as $$
     begin
       insert into stint.ran select * from unnest(p_ids, p_states::text[]);
       return 0;
     end $$`,
    );
    const { fence } = await carrier(fresh.db);
    const plain = await addOne(fresh.db);
    const [beside] = await take(fresh.db);

    await leave(fresh, fence);
    await leave(fresh, beside!.fence);

    const ran = await fresh.sql<{ id: string; state: string }>(`select id, state from stint.ran`);
    // A cancel of a waiting job comes after the release of this test.
    const expected = name.startsWith("cancel") ? ["ready", state] : [state];
    expect(ran).toEqual(expected.map((one) => ({ id: fence.job, state: one })));
    expect((await stored(fresh, plain)).state).toBe(state);
  },
);

test("a success enqueues the successor with its own options, in the same transaction", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await carrier(fresh.db, { priority: 3, delay_ms: 3_600_000, tenant: "t" });
  const rolledBack = fresh.db.transaction(async (tx) => {
    const settled = await finish(tx, [success(fence)]);
    throw new Error(`rolled back ${settled.size}`);
  });
  await expect(rolledBack).rejects.toThrow("rolled back 1");
  expect(await successors(fresh)).toEqual([]);

  await succeed(fresh.db, [fence]);

  expect(await stored(fresh, next)).toMatchObject({
    kind: "after",
    queue: "next",
    state: "scheduled",
    priority: 3,
    tenant: "t",
    payload: { n: 1 },
  });
  expect(await fresh.sql(`select from stint.follow_up`)).toEqual([]);
});

test("a stale fence enqueues no successor, and a repeated success no second one", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await carrier(fresh.db);
  await succeed(fresh.db, [{ ...fence, leaseId: newId() }]);
  expect(await successors(fresh)).toEqual([]);

  await succeed(fresh.db, [fence]);
  await finish(fresh.db, [success(fence)]);

  expect(await successors(fresh)).toEqual([next]);
});

test("a batch settles plain jobs and jobs with successors, and refuses stale fences", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await carrier(fresh.db);
  await addOne(fresh.db);
  const [beside] = await take(fresh.db);
  const stale = { ...fence, epoch: 9 };

  const settled = await succeed(fresh.db, [beside!.fence, stale, fence]);

  expect(settled).toEqual(new Set([beside!.fence, fence]));
  expect(await successors(fresh)).toEqual([next]);
});

test("success × rescue: one of them wins, and the successor follows only a success", async () => {
  const fresh = await freshSchema();
  const [worker, rescuer] = await sessions(fresh, 2);
  const { fence, next } = await carrier(fresh.db);
  await expire(fresh, fence.job);

  // The rescue has the row and has not committed; the success waits for it, and then matches nothing.
  await rescuer!.begin();
  await rescue(rescuer!, { limit: 10, maxCrashes: 3 });
  const settling = succeed(worker!, [fence]);
  await worker!.blocked();
  await rescuer!.commit();
  expect(await settling).toEqual(new Set());
  expect(await successors(fresh)).toEqual([]);

  const [again] = await take(fresh.db);
  await succeed(fresh.db, [again!.fence]);
  expect(await successors(fresh)).toEqual([next]);
});

test("concurrent batches of many carriers do not wait for each other, and lose none", async () => {
  const fresh = await freshSchema();
  const all = await sessions(fresh, 4);
  const expected = await Promise.all(Array.from({ length: 200 }, () => addCarrier(fresh.db)));
  const fences = (await take(fresh.db, { limit: 200 })).map((job) => job.fence);
  const shuffled = [...fences].reverse();

  const settled = await Promise.all([
    succeed(all[0]!, fences.slice(0, 100)),
    succeed(all[1]!, shuffled.slice(0, 100)),
    finish(all[2]!, shuffled.slice(50).map(success)),
    finish(all[3]!, fences.slice(50).map(success)),
  ]);

  expect(settled.reduce((sum, one) => sum + one.size, 0)).toBe(200);
  expect(await successors(fresh)).toEqual(expected.toSorted());
});

test("a carrier that dies keeps its successor for the replay that succeeds", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await carrier(fresh.db);
  await finish(fresh.db, [{ ...success(fence), state: "dead", ending }]);
  expect(await successors(fresh)).toEqual([]);

  await replay(fresh.db, fence.job, auditInfo());
  const [again] = await take(fresh.db);
  await succeed(fresh.db, [again!.fence]);

  expect(await successors(fresh)).toEqual([next]);
});

test("the successor of a carrier that is not even in history any more is pruned", async () => {
  const fresh = await freshSchema();
  const { fence } = await carrier(fresh.db);
  await release(fresh.db, [fence]);
  await cancel(fresh.db, fence.job, auditInfo());
  const keep = { doneMs: 1_000_000_000, auditMs: 1_000_000_000 };
  await pruneSmall(fresh.db, keep, 100);
  expect(await fresh.sql(`select from stint.follow_up`)).toHaveLength(1);

  await fresh.sql(`delete from stint.history`);
  await pruneSmall(fresh.db, { ...keep, doneMs: 0 }, 100);
  expect(await fresh.sql(`select from stint.follow_up`)).toEqual([]);
});

test("a successor that the table refuses does not refuse the success; its error stays", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await carrier(fresh.db, { queue: "" });

  expect(await succeed(fresh.db, [fence])).toEqual(new Set([fence]));

  expect(await stored(fresh, fence.job)).toMatchObject({ state: "succeeded" });
  const [kept] = await fresh.sql<{ id: string; error: string }>(`select id, error from stint.follow_up`);
  expect(kept).toMatchObject({ id: next, error: expect.stringContaining("job_names") as string });
});

test("jobs without follow-ups never touch the table of follow-ups", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`drop table stint.follow_up`);
  const ids = [await addOne(fresh.db), await addOne(fresh.db)];
  const [one, two] = await take(fresh.db);

  await succeed(fresh.db, [one!.fence]);
  await finish(fresh.db, [success(two!.fence)]);

  for (const id of ids) expect((await stored(fresh, id)).state).toBe("succeeded");
});
