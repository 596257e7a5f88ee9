import { expect, test } from "vitest";
import type { Fence } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import { cancel, replay, stateOf } from "#stint/sql/operate.js";
import { pruneSmall } from "#stint/sql/prune.js";
import { renew } from "#stint/sql/renew.js";
import { rescue } from "#stint/sql/rescue.js";
import { finish, type Finish } from "#stint/sql/finish.js";
import { requeue, type Requeue } from "#stint/sql/requeue.js";
import { freshSchema } from "../support/fresh.ts";
import { add, addOne, auditInfo, expire, running, stored, take, type JobInput } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const succeed = (fence: Fence): Finish => ({
  fence,
  state: "succeeded",
  result: null,
  reason: null,
  ending: null,
});
const release = (fence: Fence): Requeue => ({
  fence,
  state: "ready",
  delayMs: null,
  countsAs: "interruption",
  ending: { outcome: "released" },
});
const limits = { limit: 10, maxCrashes: 3 };

const keys: [string, JobInput][] = [
  ["until the end", { dedupe_key: "a", dedupe_until: "finished" }],
  ["until the start", { dedupe_key: "a", dedupe_until: "started" }],
  ["for a time", { dedupe_key: "a", dedupe_ms: 60_000 }],
];

test.each(keys)(
  "dedupe %s: the loser waits, and returns the winner's job once that commits",
  async (_, job) => {
    const fresh = await freshSchema();
    const [winner, loser] = await sessions(fresh, 2);
    await winner!.begin();
    const [won] = await add(winner!, [job]);

    const losing = add(loser!, [job]);
    await loser!.blocked();
    await winner!.commit();
    const [lost] = await losing;

    expect(won?.created).toBe(true);
    expect(lost).toMatchObject({ id: won?.id, created: false });
    expect(await fresh.sql(`select from stint.job`)).toHaveLength(1);
  },
);

test.each(keys)("dedupe %s: the loser creates its own job when the winner rolls back", async (_, job) => {
  const fresh = await freshSchema();
  const [winner, loser] = await sessions(fresh, 2);
  await winner!.begin();
  const [won] = await add(winner!, [job]);

  const losing = add(loser!, [job]);
  await loser!.blocked();
  await winner!.rollback();
  const [lost] = await losing;

  expect(lost?.created).toBe(true);
  expect(lost?.id).not.toBe(won?.id);
  expect(await fresh.sql(`select id from stint.job`)).toEqual([{ id: lost?.id }]);
});

test("dedupe: an enqueue waits while the job that holds its key is ending", async () => {
  const fresh = await freshSchema();
  const job = { dedupe_key: "a", dedupe_until: "finished" as const };
  const fence = await running(fresh.db, job);
  const [worker, first, second] = await sessions(fresh, 3);
  await worker!.begin();
  await finish(worker!, [succeed(fence)]);

  const waiting = add(first!, [job]);
  await first!.blocked();
  await worker!.rollback();
  const [whenRolledBack] = await waiting;
  await worker!.begin();
  await finish(worker!, [succeed(fence)]);
  const waitingAgain = add(second!, [job]);
  await second!.blocked();
  await worker!.commit();
  const [whenCommitted] = await waitingAgain;

  expect(whenRolledBack).toMatchObject({ id: fence.job, created: false });
  expect(whenCommitted?.created).toBe(true);
});

test.each([
  ["until the end", (key: string): JobInput => ({ dedupe_key: key, dedupe_until: "finished" })],
  ["for a time", (key: string): JobInput => ({ dedupe_key: key, dedupe_ms: 60_000 })],
])("bulk enqueues with the same keys %s in opposite order do not deadlock", async (_, job) => {
  const fresh = await freshSchema();
  const [holder, forward, backward] = await sessions(fresh, 3);
  await holder!.begin();
  await add(holder!, [job("b")]);

  // Both come to a halt in the middle of their batch, holding what they have written so far.
  const one = add(forward!, [job("a"), job("b"), job("c")]);
  await forward!.blocked();
  const two = add(backward!, [job("c"), job("b"), job("a")]);
  await backward!.blocked();
  await holder!.rollback();
  const [ours, theirs] = await Promise.all([one, two]);

  expect(ours.map((row) => row.created)).toEqual([true, true, true]);
  expect(theirs.map((row) => row.created)).toEqual([false, false, false]);
  expect(theirs.map((row) => row.id)).toEqual(ours.map((row) => row.id).reverse());
});

test("claim × cancel: a cancel that waited for a claim finds the job running on retry", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  const [worker, person] = await sessions(fresh, 2);
  await worker!.begin();
  const claimed = await take(worker!);

  const cancelling = cancel(person!, id, auditInfo());
  await person!.blocked();
  await worker!.commit();
  const first = await cancelling;
  const second = await cancel(person!, id, auditInfo());

  expect(claimed).toHaveLength(1);
  expect([first, second]).toEqual([undefined, "running"]);
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(1);
});

test("claim × cancel: a claim skips a job that is being cancelled", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db);
  const [person, worker] = await sessions(fresh, 2);
  await person!.begin();
  const was = await cancel(person!, id, auditInfo());

  const claimed = await take(worker!);
  await person!.commit();

  expect(was).toBe("waiting");
  expect(claimed).toEqual([]);
  expect(await stateOf(fresh.db, id)).toBe("cancelled");
});

test("finish × rescue: the second one is refused", async () => {
  const fresh = await freshSchema();
  const first = await running(fresh.db);
  const second = await running(fresh.db);
  await expire(fresh, first.job, second.job);
  const [worker, rescuer] = await sessions(fresh, 2);

  await worker!.begin();
  const settled = await finish(worker!, [succeed(first)]);
  await rescuer!.begin();
  const rescued = await rescue(rescuer!, limits);
  await worker!.commit();
  const late = finish(worker!, [succeed(second)]);
  await worker!.blocked();
  await rescuer!.commit();
  const refused = await late;

  expect([...settled]).toEqual([first]);
  expect(rescued.map((one) => one.job)).toEqual([second.job]);
  expect(refused.size).toBe(0);
  expect((await stored(fresh, first.job)).state).toBe("succeeded");
  expect((await stored(fresh, second.job)).state).toBe("ready");
});

test("finish × rescue: a rescue that is rolled back takes nothing from the worker", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await expire(fresh, fence.job);
  const [worker, rescuer] = await sessions(fresh, 2);
  await rescuer!.begin();
  await rescue(rescuer!, limits);

  const finishing = finish(worker!, [succeed(fence)]);
  await worker!.blocked();
  await rescuer!.rollback();

  expect([...(await finishing)]).toEqual([fence]);
});

test("renew × rescue: a renewed lease is not rescued; a rescued one is lost", async () => {
  const fresh = await freshSchema();
  const kept = await running(fresh.db);
  const lost = await running(fresh.db);
  await expire(fresh, kept.job, lost.job);
  const [worker, rescuer] = await sessions(fresh, 2);

  await worker!.begin();
  await renew(worker!, [{ ...kept, leaseMs: 60_000 }]);
  await rescuer!.begin();
  const rescued = await rescue(rescuer!, limits);
  await worker!.commit();
  const during = await renew(worker!, [{ ...lost, leaseMs: 60_000 }]);
  await rescuer!.commit();
  const after = await renew(worker!, [
    { ...kept, leaseMs: 60_000 },
    { ...lost, leaseMs: 60_000 },
  ]);

  expect(rescued.map((one) => one.job)).toEqual([lost.job]);
  expect(during.map((one) => one.held)).toEqual([true]);
  expect(Object.fromEntries(after.map((one) => [one.job, one.held]))).toEqual({
    [kept.job]: true,
    [lost.job]: false,
  });
  expect((await stored(fresh, lost.job)).state).toBe("ready");
});

test("finish × finish: one of two equal fences counts; a stale one never waits", async () => {
  const fresh = await freshSchema();
  const old = await running(fresh.db);
  await expire(fresh, old.job);
  await rescue(fresh.db, limits);
  const [claimed] = await take(fresh.db, { worker: "w2" });
  const [owner, twin, stale] = await sessions(fresh, 3);
  await owner!.begin();
  const counted = await finish(owner!, [succeed(claimed!.fence)]);

  const twinned = finish(twin!, [succeed(claimed!.fence)]);
  await twin!.blocked();
  const refused = await finish(stale!, [succeed(old)]);
  await owner!.commit();

  expect([counted.size, (await twinned).size, refused.size]).toEqual([1, 0, 0]);
  expect(await fresh.sql(`select from stint.history`)).toHaveLength(1);
});

test("requeue × cancel: a cancel that commits first prevents the requeue", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const [person, worker] = await sessions(fresh, 2);
  await person!.begin();
  const was = await cancel(person!, fence.job, auditInfo());

  const returning = requeue(worker!, [release(fence)]);
  await worker!.blocked();
  await person!.commit();

  expect(was).toBe("running");
  expect((await returning).size).toBe(0);
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "running", cancel_requested: true });
});

test("finish × cancel: a cancel that waited for the finish changes nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const [worker, person] = await sessions(fresh, 2);
  await worker!.begin();
  await finish(worker!, [succeed(fence)]);

  const cancelling = cancel(person!, fence.job, auditInfo());
  await person!.blocked();
  await worker!.commit();

  expect(await cancelling).toBeUndefined();
  expect((await stored(fresh, fence.job)).state).toBe("succeeded");
  expect(await fresh.sql(`select from stint.audit`)).toEqual([]);
});

test("replay × replay: two replays of the same job start one run", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await finish(fresh.db, [{ ...succeed(fence), state: "dead" }]);
  const [one, two] = await sessions(fresh, 2);
  await one!.begin();
  const first = await replay(one!, fence.job, auditInfo());

  const replaying = replay(two!, fence.job, auditInfo());
  await two!.blocked();
  await one!.commit();

  expect([first, await replaying]).toEqual(["main", undefined]);
  expect(await stored(fresh, fence.job)).toMatchObject({ state: "ready", run: 2 });
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(1);
});

test("concurrent claims, cancels and releases: one owner per attempt, no job lost", async () => {
  const fresh = await freshSchema();
  const ids = (
    await add(
      fresh.db,
      Array.from({ length: 120 }, () => ({})),
    )
  ).map((row) => row.id);
  const workers = await sessions(fresh, 4);
  const owners = new Map<string, number>();
  let cancelled = 0;

  await Promise.all(
    workers.map(async (db, index) => {
      for (let round = 0; round < 25; round++) {
        const jobs = await take(db, { worker: `w${index}`, limit: 7 });
        for (const { fence } of jobs)
          owners.set(`${fence.job}/${fence.epoch}`, (owners.get(`${fence.job}/${fence.epoch}`) ?? 0) + 1);
        await requeue(
          db,
          jobs.slice(0, 3).map(({ fence }) => release(fence)),
        );
        await finish(
          db,
          jobs.slice(3, 5).map(({ fence }) => succeed(fence)),
        );
        const target = ids[(round * 31 + index * 17) % ids.length] ?? "";
        if ((await cancel(db, target, auditInfo())) === "waiting") cancelled++;
        await requeue(
          db,
          jobs.slice(5).map(({ fence }) => release(fence)),
        );
      }
    }),
  );

  expect([...owners.values()].every((count) => count === 1)).toBe(true);
  const states = await fresh.sql<{ id: string; state: string }>(`select id, state from stint.jobs`);
  expect(states.map((row) => row.id).sort()).toEqual([...ids].sort());
  expect(states.filter((row) => row.state === "cancelled")).toHaveLength(cancelled);
});

test("enqueue × itself: a repeat that waited finds its job, even finished", async () => {
  const fresh = await freshSchema();
  const [first, retry] = await sessions(fresh, 2);
  const id = newId();
  await first!.begin();
  await add(first!, [{ id }]);

  const repeating = add(retry!, [{ id, again: true }]);
  await retry!.blocked();
  const [job] = await take(first!);
  await finish(first!, [succeed(job!.fence)]);
  await first!.commit();

  expect(await repeating).toMatchObject([{ id, created: true }]);
  expect(await fresh.sql(`select state from stint.jobs where id = $1`, [id])).toEqual([
    { state: "succeeded" },
  ]);
});

test("prune × enqueue: prune skips expired keys being taken over, so neither deadlocks", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.dedupe_window
     select 'work', key, gen_random_uuid(), now() - interval '1 hour' from unnest(array['a', 'b']) key`,
  );
  const [user] = await sessions(fresh, 1);
  await user!.begin();
  await add(user!, [{ dedupe_key: "b", dedupe_ms: 60_000 }]);

  expect(await pruneSmall(fresh.db, { doneMs: 1e9, auditMs: 1e9 }, 100)).toBe(1);
  const [taken] = await add(user!, [{ dedupe_key: "a", dedupe_ms: 60_000 }]);
  await user!.commit();

  expect(taken?.created).toBe(true);
  expect(await fresh.sql(`select from stint.dedupe_window where expires_at > now()`)).toHaveLength(2);
});
