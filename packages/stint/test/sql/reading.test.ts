import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { finished, get, list } from "#stint/sql/find.js";
import { registerKinds, unserved } from "#stint/sql/kinds.js";
import { queues } from "#stint/sql/queues.js";
import { finish } from "#stint/sql/finish.js";
import { requeue } from "#stint/sql/requeue.js";
import {
  heartbeat,
  forgetUnresponsiveWorkers,
  forgetWorker,
  listWorkers,
  registerWorker,
} from "#stint/sql/workers.js";
import { freshSchema } from "../support/fresh.ts";
import { add, addOne, running, take } from "./jobs.ts";

test("pages of jobs go from the newest to the oldest, live and finished, each job once", async () => {
  const { db } = await freshSchema();
  const ids = (
    await add(
      db,
      Array.from({ length: 25 }, () => ({})),
    )
  ).map((row) => row.id);
  const claimed = await take(db, { limit: 9 });
  await finish(
    db,
    claimed.slice(0, 6).map(({ fence }, index) => ({
      fence,
      state: index % 2 === 0 ? "succeeded" : "dead",
      result: null,
      reason: null,
      ending: null,
    })),
  );

  const pages: string[][] = [];
  let before: string | undefined;
  do {
    const page = await list(db, { limit: 10, ...(before === undefined ? {} : { before }) });
    pages.push(page.map((job) => job.id));
    before = page.at(-1)?.id;
  } while (before !== undefined);

  expect(pages.map((page) => page.length)).toEqual([10, 10, 5, 0]);
  expect(pages.flat()).toEqual([...ids].sort().reverse());
});

test("a list is filtered by state, kind, queue, tenant, key and tag", async () => {
  const { db } = await freshSchema();
  const [a, b, c] = await add(db, [
    { kind: "a", queue: "q1", tenant: "t1", key: "k1", tags: ["x", "y"] },
    { kind: "b", queue: "q1", tenant: "t2", key: "k2", tags: ["y"], delay_ms: 9_000 },
    { kind: "b", queue: "q2", tenant: "t1", key: "k1" },
  ]);
  const found = async (filter: object): Promise<string[]> =>
    (await list(db, { limit: 10, ...filter })).map((job) => job.id);

  expect(await found({ kind: "b" })).toEqual([c?.id, b?.id]);
  expect(await found({ queue: "q1" })).toEqual([b?.id, a?.id]);
  expect(await found({ tenant: "t1" })).toEqual([c?.id, a?.id]);
  expect(await found({ key: "k2" })).toEqual([b?.id]);
  expect(await found({ tag: "y" })).toEqual([b?.id, a?.id]);
  expect(await found({ states: ["scheduled"] })).toEqual([b?.id]);
  expect(await found({ states: ["dead"] })).toEqual([]);
});

test("get reads live and finished jobs alike; finished returns only finished ones", async () => {
  const { db } = await freshSchema();
  const live = await addOne(db, { kind: "other", payload: { a: 1 } });
  const fence = await running(db, { payload: { a: 2 } });
  await finish(db, [{ fence, state: "succeeded", result: "[7]", reason: null, ending: null }]);

  expect(await get(db, live)).toMatchObject({
    state: "ready",
    payload: { a: 1 },
    finishedAt: null,
    result: null,
    tags: [],
  });
  expect(await get(db, fence.job)).toMatchObject({
    state: "succeeded",
    payload: { a: 2 },
    result: [7],
    worker: "w1",
  });
  expect(await get(db, newId())).toBeUndefined();
  expect(await finished(db, [live, fence.job, newId()])).toEqual([
    { id: fence.job, state: "succeeded", result: [7], reason: null },
  ]);
});

test("queues are counted by state, with the age of the oldest ready job", async () => {
  const fresh = await freshSchema();
  const { db } = fresh;
  await add(db, [
    { queue: "a" },
    { queue: "a" },
    { queue: "a" },
    { queue: "a" },
    { queue: "b", delay_ms: 60_000 },
  ]);
  const jobs = await take(db, { takes: [{ queue: "a", limit: 3 }] });
  await requeue(db, [
    {
      fence: jobs[0]!.fence,
      state: "retrying",
      delayMs: 60_000,
      countsAs: "attempt",
      ending: { outcome: "failed" },
    },
  ]);
  await finish(db, [{ fence: jobs[1]!.fence, state: "dead", result: null, reason: "x", ending: null }]);
  const gone = await running(db);
  await finish(db, [{ fence: gone, state: "dead", result: null, reason: "x", ending: null }]);
  await fresh.sql(`update stint.job set run_at = now() - interval '90 s' where state = 'ready'`);

  const counts = await queues(db);

  const none = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };
  expect(counts).toEqual([
    {
      ...none,
      queue: "a",
      ready: 1,
      running: 1,
      retrying: 1,
      dead: 1,
      oldestReadyMs: expect.any(Number) as number,
    },
    { ...none, queue: "b", scheduled: 1, oldestReadyMs: null },
    { ...none, queue: "main", dead: 1, oldestReadyMs: null },
  ]);
  expect(counts[0]?.oldestReadyMs).toBeGreaterThanOrEqual(90_000);
});

test("kinds with waiting jobs that no worker serves in that queue are listed", async () => {
  const fresh = await freshSchema();
  const { db } = fresh;
  await add(db, [
    { kind: "served", queue: "a" },
    { kind: "orphan", queue: "a" },
    { kind: "served", queue: "b" },
    { kind: "young", queue: "c" },
  ]);
  await fresh.sql(`update stint.job set run_at = now() - interval '1 minute' where kind <> 'young'`);
  const worker = { host: "h", pid: 1, version: "v", kinds: ["served"] };
  await registerWorker(db, { ...worker, id: "w1", pools: { a: 1 } });
  await registerWorker(db, { ...worker, id: "w2", pools: { b: 1 } });
  await heartbeat(db, "w2", { listening: false, draining: true });

  const found = await unserved(db, 10_000);

  // The worker on queue b is draining: it takes nothing new.
  expect(found.map(({ kind, queue }) => `${kind} on ${queue}`).sort()).toEqual([
    "orphan on a",
    "served on b",
  ]);
});

test("workers are listed while they report", async () => {
  const fresh = await freshSchema();
  const { db } = fresh;
  const info = { host: "h", pid: 7, version: "v", pools: { a: 2 }, kinds: ["k"] };
  await registerWorker(db, { ...info, id: "one" });
  await registerWorker(db, { ...info, id: "two" });
  await registerWorker(db, { ...info, id: "three" });
  await fresh.sql(`update stint.worker set seen_at = now() - interval '5 minutes' where id = 'two'`);

  const known = await heartbeat(db, "one", { listening: true });
  const silent = await forgetUnresponsiveWorkers(db, 60_000);
  await forgetWorker(db, "three");
  const unknown = await heartbeat(db, "two", { listening: true });

  expect([known, unknown]).toEqual([true, false]);
  expect(silent).toEqual(["two"]);
  expect(await listWorkers(db)).toMatchObject([{ ...info, id: "one", listening: true, draining: false }]);
});

test("a kind's definition is written again only when it changes", async () => {
  const fresh = await freshSchema();
  const kind = { queue: "a", priority: null, maxCrashes: 3 };
  await registerKinds(fresh.db, [
    { ...kind, name: "b" },
    { ...kind, name: "a" },
  ]);
  const before = await fresh.sql<{ name: string }>(`select xmin::text, * from stint.kind order by name`);

  await registerKinds(fresh.db, [
    { ...kind, name: "a" },
    { ...kind, name: "b", queue: "other" },
  ]);

  const after = await fresh.sql(`select xmin::text, * from stint.kind order by name`);
  expect(after[0]).toEqual(before[0]);
  expect(after[1]).toMatchObject({ name: "b", queue: "other", max_crashes: 3 });
});
