import { expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import type { ClaimInput, Floor } from "#stint/sql/claim.js";
import { freshSchema } from "../support/fresh.ts";
import { add, take, type JobInput } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const ids = Array.from({ length: 60 }, (_, n) => `00000000-0000-7000-8000-0000000000${n + 10}`);
const at = (second: number): string => `2020-01-01T00:00:${String(second).padStart(2, "0")}Z`;
/** Before every job of these tests. */
const start = (priority = 0, queue = "main"): Floor => ({
  queue,
  priority,
  runAt: "2000-01-01T00:00:00Z",
  id: ids[0]!,
});

async function onward(
  db: Run,
  floors: readonly Floor[],
  input: Partial<ClaimInput> & { limit?: number } = {},
): Promise<string[]> {
  return names(await take(db, { limit: 100, ...input }, floors));
}

const names = (jobs: readonly ClaimedJob[]): string[] => jobs.map((job) => job.fence.job);

test("only jobs after a floor are taken: a later time, or the same with a greater id", async () => {
  const { db } = await freshSchema();
  const [a, b, c, d, e] = ids;
  await add(db, [
    { id: a!, run_at: at(1) },
    { id: b!, run_at: at(2) },
    { id: c!, run_at: at(2) },
    { id: d!, run_at: at(2) },
    { id: e!, run_at: at(3) },
  ]);

  expect(await onward(db, [{ ...start(), runAt: at(2), id: c! }])).toEqual([d, e]);
  expect(names(await take(db))).toEqual([a, b, c]);
});

test("a floor holds to the microsecond", async () => {
  const fresh = await freshSchema();
  const [a, b, c] = ids;
  await add(fresh.db, [{ id: a! }, { id: b! }, { id: c! }]);
  await fresh.sql(
    `update stint.job set run_at = timestamptz '2020-01-01 00:00:00.123456+00'
       + case id when $1 then -1 when $2 then 0 else 1 end * interval '1 microsecond'`,
    [a, b],
  );
  const [first, second] = await take(fresh.db, { limit: 2 });

  expect(names([first!, second!])).toEqual([a, b]);
  expect(await onward(fresh.db, [{ ...start(), runAt: first!.runAt, id: ids[59]! }])).toEqual([c]);
});

test("priorities are taken in the order of the floors; one without a floor is skipped", async () => {
  const { db } = await freshSchema();
  const job = (n: number, priority: number): JobInput => ({ id: ids[n]!, priority, run_at: at(n) });
  await add(db, [job(1, 5), job(2, 0), job(3, -5), job(4, 7), job(5, -5), job(6, 0)]);
  const floors = [-5, 0, 5].map((priority) => start(priority));

  expect(await onward(db, floors, { limit: 3 })).toEqual([ids[3], ids[5], ids[2]]);
  expect(await onward(db, floors)).toEqual([ids[6], ids[1]]);
  expect(names(await take(db))).toEqual([ids[4]]);
});

test("a limit covers all priorities of a queue; without a floor nothing is taken", async () => {
  const { db } = await freshSchema();
  await add(
    db,
    ["a", "b", "c"].flatMap((queue) =>
      [0, 1, 2].flatMap((priority) => Array.from({ length: 4 }, () => ({ queue, priority }))),
    ),
  );
  const floors = [0, 1, 2].flatMap((priority) => ["a", "b"].map((queue) => start(priority, queue)));
  const jobs = await take(
    db,
    {
      takes: [
        { queue: "a", limit: 6 },
        { queue: "b", limit: 1 },
        { queue: "c", limit: 9 },
      ],
    },
    floors,
  );

  const of = (queue: string): number[] =>
    jobs.filter((job) => job.queue === queue).map((job) => job.priority);
  expect([of("a"), of("b"), of("c")]).toEqual([[0, 0, 0, 0, 1, 1], [0], []]);
});

test("only served kinds are taken; other kinds between them are skipped", async () => {
  const { db } = await freshSchema();
  await add(
    db,
    ids.slice(0, 6).map((id, n) => ({ id, kind: n % 2 === 0 ? "other" : "work", run_at: at(n) })),
  );

  expect(await onward(db, [start()], { limit: 2 })).toEqual([ids[1], ids[3]]);
  expect(await onward(db, [start()], { kinds: ["other", "work"], limit: 2 })).toEqual([ids[0], ids[2]]);
});

test("a claim onward opens attempts like any other claim", async () => {
  const fresh = await freshSchema();
  const leaseId = newId();
  await add(fresh.db, [{ dedupe_key: "k", dedupe_until: "started" }]);

  const taken = await onward(fresh.db, [start()], { leaseId, worker: "w7", kindLeaseMs: { work: 5_000 } });

  expect(
    await fresh.sql(
      `select id, state, attempts, epoch::integer, lease_id, worker, dedupe_key,
         round(extract(epoch from lease_until - claimed_at))::integer as lease_s
       from stint.job`,
    ),
  ).toEqual([
    {
      id: taken[0],
      state: "running",
      attempts: 1,
      epoch: 1,
      lease_id: leaseId,
      worker: "w7",
      dedupe_key: null,
      lease_s: 5,
    },
  ]);
});

test("only taken jobs are locked: another session can claim all the rest", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    ids.slice(0, 30).map((id, n) => ({ id, priority: n % 3, run_at: at(n) })),
  );
  const floors = [0, 1, 2].map((priority) => start(priority));
  const [one, two] = await sessions(fresh, 2);
  await one!.begin();
  const mine = await onward(one!, floors, { limit: 13 });
  const theirs = names(await take(two!, { limit: 100 }));
  await one!.commit();

  expect(mine).toHaveLength(13);
  expect(new Set([...mine, ...theirs])).toEqual(new Set(ids.slice(0, 30)));
  expect(theirs).toHaveLength(17);
});

test("two concurrent claims onward never share a job and never wait for each other", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 30 }, (_, n) => ({ id: ids[n]!, priority: n % 2 })),
  );
  const floors = [0, 1].map((priority) => start(priority));
  const [one, two] = await sessions(fresh, 2);
  await one!.begin();
  await two!.begin();
  const mine = await onward(one!, floors, { limit: 10 });
  const theirs = await onward(two!, floors, { limit: 10 });
  await one!.rollback();
  await two!.commit();

  expect(mine).toHaveLength(10);
  expect(theirs).toHaveLength(10);
  expect(new Set([...mine, ...theirs]).size).toBe(20);
  expect((await onward(fresh.db, floors)).slice(0, 10)).toEqual(mine);
});
