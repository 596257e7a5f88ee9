import { beforeAll, describe, expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import type { Fence } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import type { OnFailure } from "#stint/sql/enqueue.js";
import { finished } from "#stint/sql/find.js";
import { finish, finishInLent } from "#stint/sql/finish.js";
import { dependencyResults } from "#stint/sql/flows.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { park } from "#stint/sql/park.js";
import { pruneDead, pruneSmall } from "#stint/sql/prune.js";
import { release } from "#stint/sql/release.js";
import { requeue } from "#stint/sql/requeue.js";
import { rescue } from "#stint/sql/rescue.js";
import { succeed } from "#stint/sql/succeed.js";
import { freshSchema, sharedSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne, auditInfo, expire, running, stored, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const ending = { outcome: "failed" } as const;
const success = (fence: Fence, result: unknown = null): Parameters<typeof finish>[1][number] => ({
  fence,
  state: "succeeded",
  result: result === null ? null : JSON.stringify(result),
  reason: null,
  ending: null,
});
const death = (fence: Fence): Parameters<typeof finish>[1][number] => ({
  ...success(fence),
  state: "dead",
  reason: "it failed",
  ending,
});

/** A job that waits for these. */
async function addAfter(db: Run, after: string[], onFailure?: OnFailure, more = {}): Promise<string> {
  const member = { after, ...(onFailure === undefined ? {} : { on_failure: onFailure }) };
  return await addOne(db, { kind: "after", queue: "next", member, ...more });
}

/** The states of these jobs; of a blocked job, "blocked". */
async function statesOf(fresh: Fresh, ...ids: string[]): Promise<string[]> {
  const rows = await Promise.all(ids.map((id) => stored(fresh, id)));
  return rows.map((row) => (row["park_reason"] as string | null) ?? row.state);
}

/** A success that continues its chain with a job of this kind. */
async function continueAs(db: Run, fence: Fence, more: Record<string, unknown> = {}): Promise<string> {
  const id = newId();
  const next = { id, kind: "work", queue: "main", payload: { n: 2 }, ...more };
  const settled = await finish(db, [{ ...success(fence), plan: JSON.stringify({ next }) }]);
  expect(settled.size).toBe(1);
  return id;
}

const ways: Record<string, [state: string, leave: (fresh: Fresh, fence: Fence) => Promise<unknown>]> = {
  succeed: ["succeeded", ({ db }, fence) => succeed(db, [fence])],
  finish: ["succeeded", ({ db }, fence) => finish(db, [success(fence)])],
  "finish in a handler's transaction": [
    "succeeded",
    ({ db }, fence) => db.transaction((tx) => finishInLent(tx, fence, null, undefined)),
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

describe("follow-ups", () => {
  const shared = sharedSchema();
  beforeAll(async () => {
    await shared().sql(`create table stint.ran (id uuid, state text)`);
    await shared().sql(
      `create or replace function stint.run_follow_ups(
         p_ids uuid[], p_states stint.job_state[], p_results jsonb[] default null, p_reasons text[] default null, p_plans jsonb[] default null
       ) returns integer
       language plpgsql as $$
       begin
         insert into stint.ran select * from unnest(p_ids, p_states::text[]);
         return 0;
       end $$`,
    );
  });

  test.each(Object.entries(ways))("run once, with the new state: %s", async (name, [state, leave]) => {
    const fresh = shared();
    await fresh.sql(`delete from stint.job`);
    await fresh.sql(`delete from stint.ran`);
    const fence = await running(fresh.db);
    await fresh.sql(`update stint.job set has_follow_ups = true`);
    const plain = await addOne(fresh.db);
    const [beside] = await take(fresh.db);

    await leave(fresh, fence);
    await leave(fresh, beside!.fence);

    const ran = await fresh.sql<{ id: string; state: string }>(`select id, state from stint.ran`);
    // A cancel of a waiting job comes after the release of this test.
    const expected = name.startsWith("cancel") ? ["ready", state] : [state];
    expect(ran).toEqual(expected.map((one) => ({ id: fence.job, state: one })));
    expect((await stored(fresh, plain)).state).toBe(state);
  });
});

test("a job waits for all of its dependencies, and gets copies of their results", async () => {
  const fresh = await freshSchema();
  const [a, b] = [await running(fresh.db), await running(fresh.db)];
  const id = await addAfter(fresh.db, [b.job, a.job]);

  await finish(fresh.db, [success(a, { from: "a" })]);
  expect(await statesOf(fresh, id)).toEqual(["blocked"]);
  await finish(fresh.db, [success(b, { from: "b" })]);
  expect(await statesOf(fresh, id)).toEqual(["ready"]);

  await fresh.sql(`delete from stint.history`);
  const results = await dependencyResults(fresh.db, id, null);
  expect(results).toEqual([
    { id: b.job, kind: "work", state: "succeeded", result: { from: "b" } },
    { id: a.job, kind: "work", state: "succeeded", result: { from: "a" } },
  ]);
});

test("a delay counts from the moment in which a job waits for nothing more", async () => {
  const fresh = await freshSchema();
  const a = await running(fresh.db);
  const id = await addAfter(fresh.db, [a.job], undefined, { delay_ms: 3_600_000 });
  await fresh.sql(`update stint.job set run_at = now() - interval '2 hours' where id = $1`, [id]);
  await succeed(fresh.db, [a]);

  const { state, run_at: runAt } = await stored(fresh, id);
  expect(state).toBe("scheduled");
  expect((runAt as Date).getTime()).toBeGreaterThan(Date.now() + 3_000_000);
});

test("dependencies that have ended already count as they ended", async () => {
  const fresh = await freshSchema();
  const [a, b] = [await running(fresh.db), await running(fresh.db)];
  await finish(fresh.db, [success(a, 1), death(b)]);

  const ids = [
    await addAfter(fresh.db, [a.job]),
    await addAfter(fresh.db, [a.job, b.job]),
    await addAfter(fresh.db, [a.job, b.job], "run"),
    await addAfter(fresh.db, [a.job, b.job], "cancel"),
  ];

  expect(await statesOf(fresh, ...ids)).toEqual(["ready", "blocked", "ready", "cancelled"]);
  const [one] = await dependencyResults(fresh.db, ids[0]!, "work");
  expect(one).toMatchObject({ state: "succeeded", result: 1 });
  expect(await stored(fresh, ids[1]!)).toMatchObject({
    reason: `it waits for work ${b.job}, which is dead`,
  });
});

test.each([
  ["a job that does not exist", newId(), /no job .* exists/],
  ["itself", "self", /cannot wait for itself/],
])("a job cannot wait for %s, and nothing is written", async (_, on, message) => {
  const fresh = await freshSchema();
  const id = newId();

  await expect(addAfter(fresh.db, [on === "self" ? id : on], undefined, { id })).rejects.toThrow(message);
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
  expect(await fresh.sql(`select from stint.flow`)).toEqual([]);
});

const failures: Record<string, (fresh: Fresh, fence: Fence) => Promise<unknown>> = {
  die: ({ db }, fence) => finish(db, [death(fence)]),
  "rescue for the last time": ways["rescue for the last time"]![1],
  cancel: ways["cancel while it waits"]![1],
  "cancel many": ways["cancel many while they wait"]![1],
};

test.each(Object.entries(failures))("each failure policy is applied on every end: %s", async (_, fail) => {
  const fresh = await freshSchema();
  const a = await running(fresh.db);
  const [parks, cancels, runs] = [
    await addAfter(fresh.db, [a.job]),
    await addAfter(fresh.db, [a.job], "cancel"),
    await addAfter(fresh.db, [a.job], "run"),
  ];
  const inTurn = await addAfter(fresh.db, [cancels], "cancel");

  await fail(fresh, a);

  expect(await statesOf(fresh, parks, cancels, runs, inTurn)).toEqual([
    "blocked",
    "cancelled",
    "ready",
    "cancelled",
  ]);
  expect((await stored(fresh, inTurn))["reason"]).toContain(`it waits for after ${cancels}`);
  const [seen] = await dependencyResults(fresh.db, runs, null);
  expect(seen).toMatchObject({ id: a.job, state: expect.stringMatching(/dead|cancelled/) as string });
});

test("two last dependencies that end at once unblock their job once", async () => {
  const fresh = await freshSchema();
  const [one, two] = await sessions(fresh, 2);
  const [a, b] = [await running(fresh.db), await running(fresh.db)];
  const id = await addAfter(fresh.db, [a.job, b.job]);

  await one!.begin();
  await finish(one!, [success(a)]);
  const second = finish(two!, [success(b)]);
  await two!.blocked();
  await one!.commit();
  await second;

  expect(await statesOf(fresh, id)).toEqual(["ready"]);
});

test("a job that begins to wait while its dependency ends misses nothing", async () => {
  const fresh = await freshSchema();
  const [worker, client] = await sessions(fresh, 2);

  // The success is under way: the enqueue waits for it, and finds it in the history.
  const a = await running(fresh.db);
  await worker!.begin();
  await succeed(worker!, [a]);
  const adding = addAfter(client!, [a.job]);
  await client!.blocked();
  await worker!.commit();
  expect(await statesOf(fresh, await adding)).toEqual(["ready"]);

  // The enqueue is under way: the success of a plain job does not wait for it, and the commit finds that it has ended.
  const b = await running(fresh.db);
  await client!.begin();
  const id = await addAfter(client!, [b.job]);
  expect(await succeed(worker!, [b])).toEqual(new Set([b]));
  await client!.commit();
  expect(await statesOf(fresh, id)).toEqual(["ready"]);
});

test("a fan-in of 400 that ends in batches of four sessions is unblocked once", async () => {
  const fresh = await freshSchema();
  const all = await sessions(fresh, 4);
  const ids = (
    await add(
      fresh.db,
      Array.from({ length: 400 }, () => ({})),
    )
  ).map(({ id }) => id);
  const waiting = [
    await addAfter(fresh.db, ids),
    await addAfter(fresh.db, [...ids].reverse()),
    await addAfter(fresh.db, ids.slice(0, 200)),
  ];
  const fences = (await take(fresh.db, { limit: 400 })).map((job) => job.fence);
  const shuffled = fences.toSorted((x, y) => (x.job.slice(-6) < y.job.slice(-6) ? -1 : 1));

  const settled = await Promise.all(
    all.map(async (session, index) => {
      let count = 0;
      for (let from = index * 100; from < index * 100 + 100; from += 25) {
        const some = shuffled.slice(from, from + 25);
        count += (
          index % 2 === 0
            ? await succeed(session, some)
            : await finish(
                session,
                some.map((f) => success(f)),
              )
        ).size;
      }
      return count;
    }),
  );

  expect(settled).toEqual([100, 100, 100, 100]);
  expect(await statesOf(fresh, ...waiting)).toEqual(["ready", "ready", "ready"]);
  const [sum] = await fresh.sql(`select sum(pending)::integer as pending from stint.flow_job`);
  expect(sum).toEqual({ pending: 0 });
});

test("a replay of a dead dependency that succeeds unblocks what waited for it", async () => {
  const fresh = await freshSchema();
  const a = await running(fresh.db);
  const [parks, runs] = [
    await addAfter(fresh.db, [a.job]),
    await addAfter(fresh.db, [a.job, await addOne(fresh.db)], "run"),
  ];
  await finish(fresh.db, [death(a)]);
  await replay(fresh.db, a.job, auditInfo());
  expect((await stored(fresh, parks))["reason"]).toBeNull();
  expect(await statesOf(fresh, parks, runs)).toEqual(["blocked", "blocked"]);

  const again = (await take(fresh.db)).find((job) => job.fence.job === a.job);
  await succeed(fresh.db, [again!.fence]);

  expect(await statesOf(fresh, parks, runs)).toEqual(["ready", "blocked"]);
});

test("a replayed job that waits for others is blocked again, not ready", async () => {
  const fresh = await freshSchema();
  const a = await running(fresh.db);
  const [one, two] = [await addAfter(fresh.db, [a.job]), await addAfter(fresh.db, [a.job])];
  for (const id of [one, two]) await cancel(fresh.db, id, auditInfo());

  await replay(fresh.db, one, auditInfo());
  await actOnMany(fresh.db, "replay", {
    ids: [two],
    auditIds: [newId()],
    states: ["cancelled"],
    until: "infinity",
    actor: "tester",
    reason: "because",
  });
  expect(await statesOf(fresh, one, two)).toEqual(["blocked", "blocked"]);
  await succeed(fresh.db, [a]);
  expect(await statesOf(fresh, one, two)).toEqual(["ready", "ready"]);
});

test("run-now does not lift a job that waits for others", async () => {
  const fresh = await freshSchema();
  const id = await addAfter(fresh.db, [await addOne(fresh.db)]);

  expect(await runNow(fresh.db, id, auditInfo())).toBeUndefined();
  expect(await statesOf(fresh, id)).toEqual(["blocked"]);
});

test("a chain continues in the same transaction, and ends with its last job", async () => {
  const fresh = await freshSchema();
  const first = await running(fresh.db);
  const waits = await addAfter(fresh.db, [first.job]);
  const rolledBack = fresh.db.transaction(async (tx) => {
    await continueAs(tx, first);
    throw new Error("rolled back");
  });
  await expect(rolledBack).rejects.toThrow("rolled back");
  expect(await fresh.sql(`select from stint.job where payload = '{"n": 2}'`)).toEqual([]);

  const second = await continueAs(fresh.db, first);
  expect(await finished(fresh.db, [first.job, second])).toEqual([]);
  expect(await statesOf(fresh, first.job, second, waits)).toEqual(["succeeded", "ready", "blocked"]);
  const late = await addAfter(fresh.db, [first.job]);

  const [claimed] = await take(fresh.db);
  await finish(fresh.db, [success(claimed!.fence, "the end")]);
  expect(await finished(fresh.db, [first.job])).toMatchObject([{ id: first.job, result: "the end" }]);
  expect(await statesOf(fresh, waits, late)).toEqual(["ready", "ready"]);
  expect(await dependencyResults(fresh.db, late, null)).toMatchObject([{ id: first.job, result: "the end" }]);
});

test("a stale fence continues nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const plan = JSON.stringify({ next: { id: newId(), kind: "work", queue: "main", payload: 1 } });
  const stale = { ...fence, epoch: 9 };

  expect((await finish(fresh.db, [{ ...success(stale), plan }])).size).toBe(0);
  expect(await fresh.sql(`select from stint.job`)).toHaveLength(1);
  expect((await finish(fresh.db, [{ ...success(fence), plan }])).size).toBe(1);
  expect((await finish(fresh.db, [{ ...success(fence), plan }])).size).toBe(0);
  expect(await fresh.sql(`select from stint.job`)).toHaveLength(1);
});

test("a chain of one kind keeps its dedupe key until it ends", async () => {
  const fresh = await freshSchema();
  const key = { dedupe_key: "k", dedupe_until: "finished" } as const;
  const first = await running(fresh.db, key);
  const second = await continueAs(fresh.db, first);

  const [other] = await add(fresh.db, [key]);
  expect(other).toMatchObject({ id: second, created: false });
});

test("a continuation that the table refuses ends its chain as dead, with the error", async () => {
  const fresh = await freshSchema();
  const [bad, good] = [await running(fresh.db), await running(fresh.db)];
  const waits = await addAfter(fresh.db, [bad.job]);
  const plan = (queue: string): string =>
    JSON.stringify({ next: { id: newId(), kind: "work", queue, payload: 1 } });

  const jobs = [
    { ...success(bad), plan: plan("") },
    { ...success(good), plan: plan("main") },
  ];
  expect((await finish(fresh.db, jobs)).size).toBe(2);

  expect(await statesOf(fresh, bad.job, waits)).toEqual(["succeeded", "blocked"]);
  expect(await finished(fresh.db, [bad.job, good.job])).toMatchObject([
    { id: bad.job, state: "dead", reason: expect.stringMatching(/refused: .*job_names/) as string },
  ]);
  expect(await take(fresh.db)).toHaveLength(1);
});

test("a dead job that another one waits for is not pruned", async () => {
  const fresh = await freshSchema();
  const [a, b] = [await running(fresh.db), await running(fresh.db)];
  const waits = await addAfter(fresh.db, [a.job]);
  await finish(fresh.db, [death(a), death(b)]);

  expect(await pruneDead(fresh.db, 0, 10)).toBe(1);
  expect((await stored(fresh, a.job)).state).toBe("dead");
  await cancel(fresh.db, waits, auditInfo());
  expect(await pruneDead(fresh.db, 0, 10)).toBe(1);
});

test("a flow is pruned after all of its jobs have left the history", async () => {
  const fresh = await freshSchema();
  const a = await running(fresh.db);
  const waits = await addAfter(fresh.db, [a.job]);
  await succeed(fresh.db, [a]);
  await cancel(fresh.db, waits, auditInfo());
  const keep = { doneMs: 0, auditMs: 1_000_000_000 };
  await fresh.sql(`update stint.flow set created_at = now() - interval '1 hour'`);
  await fresh.sql(`delete from stint.history where id = $1`, [a.job]);
  await pruneSmall(fresh.db, { ...keep, doneMs: 1000 }, 100);
  expect(await fresh.sql(`select from stint.flow_job`)).toHaveLength(2);

  await fresh.sql(`delete from stint.history`);
  await pruneSmall(fresh.db, { ...keep, doneMs: 1000 }, 100);
  for (const table of ["flow", "flow_job", "flow_edge"])
    expect(await fresh.sql(`select from stint.${table}`)).toEqual([]);
});

test("jobs without follow-ups never touch the tables of flows", async () => {
  const fresh = await freshSchema();
  for (const table of ["flow", "flow_job", "flow_edge"]) await fresh.sql(`drop table stint.${table} cascade`);
  const ids = [await addOne(fresh.db), await addOne(fresh.db)];
  const [one, two] = await take(fresh.db);

  await succeed(fresh.db, [one!.fence]);
  await finish(fresh.db, [success(two!.fence)]);

  for (const id of ids) expect((await stored(fresh, id)).state).toBe("succeeded");
});
