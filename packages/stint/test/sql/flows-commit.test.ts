import { expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import type { Fence } from "#stint/model/job.js";
import type { OnFailure } from "#stint/sql/enqueue.js";
import { finish } from "#stint/sql/finish.js";
import { replay } from "#stint/sql/operate.js";
import { succeed } from "#stint/sql/succeed.js";
import { newId } from "#stint/runtime/new-id.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { addOne, auditInfo, running, stored, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

// `after` in an open transaction locks nothing; its commit looks again at what the job waits for.

const outcome = (fence: Fence, state: "succeeded" | "dead"): Parameters<typeof finish>[1][number] => ({
  fence,
  state,
  result: state === "succeeded" ? "7" : null,
  reason: state === "dead" ? "it failed" : null,
  ending: state === "dead" ? { outcome: "failed" } : null,
});

async function addAfter(db: Run, after: string[], onFailure: OnFailure = "park"): Promise<string> {
  return await addOne(db, { kind: "after", queue: "next", member: { after, on_failure: onFailure } });
}

async function stateOf(fresh: Fresh, id: string): Promise<unknown> {
  const row = await stored(fresh, id);
  return row["park_reason"] ?? row.state;
}

test("an open transaction whose job waits for others holds up no settle of them", async () => {
  const fresh = await freshSchema();
  const [client] = await sessions(fresh, 1);
  const fences = [await running(fresh.db), await running(fresh.db), await running(fresh.db)];
  const [plain, continued, dead] = fences as [Fence, Fence, Fence];
  await client!.begin();
  const ids: string[] = [];
  for (const { job } of fences) ids.push(await addAfter(client!, [job]));

  // On other connections, while the transaction is open: none of these may wait for it.
  expect((await succeed(fresh.db, [plain])).size).toBe(1);
  const next = { id: newId(), kind: "work", queue: "main", payload: 2 };
  const plan = JSON.stringify({ next });
  expect((await finish(fresh.db, [{ ...outcome(continued, "succeeded"), plan }])).size).toBe(1);
  expect((await finish(fresh.db, [outcome(dead, "dead")])).size).toBe(1);
  const beside = await addAfter(fresh.db, [continued.job]);
  await client!.commit();

  expect(await Promise.all(ids.map((id) => stateOf(fresh, id)))).toEqual(["ready", "blocked", "blocked"]);
  expect((await stored(fresh, ids[2]!))["reason"]).toBe(`it waits for work ${dead.job}, which is dead`);
  const [last] = await take(fresh.db);
  await succeed(fresh.db, [last!.fence]);
  expect(await Promise.all([ids[1]!, beside].map((id) => stateOf(fresh, id)))).toEqual(["ready", "ready"]);
});

test.each(["park", "cancel", "run"] as const)(
  "a dependency that dies before the commit counts by the policy %s",
  async (policy) => {
    const fresh = await freshSchema();
    const [client] = await sessions(fresh, 1);
    const fence = await running(fresh.db);
    await client!.begin();
    const id = await addAfter(client!, [fence.job], policy);
    await finish(fresh.db, [outcome(fence, "dead")]);
    await client!.commit();

    const states = { park: "blocked", cancel: "cancelled", run: "ready" };
    expect(await stateOf(fresh, id)).toBe(states[policy]);
  },
);

test("a dead dependency that is replayed before the commit is waited for", async () => {
  const fresh = await freshSchema();
  const [client] = await sessions(fresh, 1);
  const [one, two] = [await running(fresh.db), await running(fresh.db)];
  await finish(fresh.db, [outcome(one, "dead"), outcome(two, "dead")]);
  await client!.begin();
  const ids = [await addAfter(client!, [one.job]), await addAfter(client!, [two.job])];
  await replay(fresh.db, one.job, auditInfo());
  const [again] = await take(fresh.db);
  await succeed(fresh.db, [again!.fence]);
  await replay(fresh.db, two.job, auditInfo());
  await client!.commit();

  expect(await Promise.all(ids.map((id) => stateOf(fresh, id)))).toEqual(["ready", "blocked"]);
  expect((await stored(fresh, ids[1]!))["reason"]).toBeNull();
  const [last] = await take(fresh.db);
  await succeed(fresh.db, [last!.fence]);
  expect(await stateOf(fresh, ids[1]!)).toBe("ready");
});

test("a dependency that is pruned before the commit refuses the commit", async () => {
  const fresh = await freshSchema();
  const [client] = await sessions(fresh, 1);
  const fence = await running(fresh.db);
  await client!.begin();
  const id = await addAfter(client!, [fence.job]);
  await succeed(fresh.db, [fence]);
  await fresh.sql(`delete from stint.history`);

  await expect(client!.commit()).rejects.toThrow(/no job .* exists/);
  expect(await fresh.sql(`select from stint.jobs where id = $1`, [id])).toEqual([]);
});

test("transactions that wait for the same jobs in opposite order commit at once", async () => {
  const fresh = await freshSchema();
  const all = await sessions(fresh, 4);
  const fences: Fence[] = [];
  for (let n = 0; n < 20; n++) fences.push(await running(fresh.db));
  const jobs = fences.map(({ job }) => job);
  const added = await Promise.all(
    all.map(async (session, index) => {
      await session.begin();
      const order = index % 2 === 0 ? jobs : jobs.toReversed();
      const ids: string[] = [];
      for (const job of order) ids.push(await addAfter(session, [job]));
      return ids;
    }),
  );
  await Promise.all([
    ...all.map((session) => session.commit()),
    ...fences.map((one) => succeed(fresh.db, [one])),
  ]);

  const [blocked] = await fresh.sql(`select count(*)::integer as n from stint.job where state <> 'ready'`);
  expect(blocked).toEqual({ n: 0 });
  expect(added.flat()).toHaveLength(80);
  expect(await fresh.sql(`select from stint.flow_job where unchecked`)).toEqual([]);
});

test("a savepoint that is rolled back leaves nothing to check", async () => {
  const fresh = await freshSchema();
  const [client] = await sessions(fresh, 1);
  const fence = await running(fresh.db);
  await client!.begin();
  await client!.client.query("savepoint s");
  await addAfter(client!, [fence.job]);
  await client!.client.query("rollback to s");
  const id = await addAfter(client!, [fence.job]);
  await client!.commit();
  await succeed(fresh.db, [fence]);

  expect(await stateOf(fresh, id)).toBe("ready");
  expect(await fresh.sql(`select from stint.flow_edge`)).toHaveLength(1);
});
