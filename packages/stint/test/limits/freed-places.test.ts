/** Which job gets a place that has become free, and what that costs. No worker runs: only the statement that frees the place lets jobs in. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { claim } from "#stint/sql/claim.js";
import { finish } from "#stint/sql/finish.js";
import { tendLimits } from "#stint/sql/limits.js";
import { placesFor } from "#stint/sql/take-places.js";
import { fewestBlocks } from "../support/blocks.ts";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { wrongTallies } from "../support/tallies.ts";

const a = { name: "a", max: 1 } as const;
const b = { name: "b", max: 1 } as const;
const payload = typed<object>();
const underA = defineJob("under-a", { payload, limits: [a] });
const underB = defineJob("under-b", { payload, limits: [b] });
const underBoth = defineJob("under-both", { payload, limits: [a, b] });
const underKey = defineJob("under-key", {
  payload: typed<{ account: string }>(),
  limits: [{ ...a, key: ({ account }) => account }],
});

async function withLimits(max = 1): Promise<Fresh> {
  const fresh = await freshSchema();
  for (const rule of ["key:a", "key:b"]) await fresh.client().limits.set(rule, max, { reason: "test" });
  return fresh;
}

/** Claims every ready job, as a worker does. Those without a place wait. */
async function claimAll(fresh: Fresh, limit = 100): Promise<ClaimedJob[]> {
  const jobs = await claim(fresh.db, {
    worker: "w",
    leaseId: randomUUID(),
    takes: [{ queue: "default", limit }],
    kinds: ["under-a", "under-b", "under-both", "under-key"],
    kindLeaseMs: {},
    leaseMs: 3_600_000,
  });
  const fences = jobs.map(({ fence }) => fence);
  const placed = await placesFor(fresh.db, fences);
  return jobs.filter(({ fence }) => placed.get(fence.job) === "taken");
}

async function runOne(fresh: Fresh, job: typeof underA): Promise<ClaimedJob> {
  await fresh.client().enqueue(job, {});
  const [running] = await claimAll(fresh);
  return running!;
}

const end = async (fresh: Fresh, { fence }: ClaimedJob): Promise<void> =>
  void (await finish(fresh.db, [{ fence, state: "succeeded", result: null, reason: null, ending: null }]));

const readyJobs = async (fresh: Fresh): Promise<string[]> =>
  (await fresh.sql<{ id: string }>(`select id from stint.job where state = 'ready'`)).map(({ id }) => id);

test("a job behind one that waits for another limit is let in at once", async () => {
  const fresh = await withLimits();
  const [ofA, ofB] = [await runOne(fresh, underA), await runOne(fresh, underB)];
  const both = await fresh.client().enqueue(underBoth, {});
  const behind = await fresh.client().enqueue(underA, {});
  await claimAll(fresh);

  await end(fresh, ofA);
  expect(await readyJobs(fresh)).toEqual([behind.id]);
  const [second] = await claimAll(fresh);
  await end(fresh, second!);
  await end(fresh, ofB);
  expect(await readyJobs(fresh)).toEqual([both.id]);
});

/** One job runs under each limit, and two jobs wait for both. */
async function twoUnderBoth() {
  const fresh = await withLimits();
  const stint = fresh.client();
  const [ofA, ofB] = [await runOne(fresh, underA), await runOne(fresh, underB)];
  const first = await stint.enqueue(underBoth, {});
  const second = await stint.enqueue(underBoth, {});
  await claimAll(fresh);
  return { fresh, stint, ofA, ofB, first, second };
}

test("a job cancelled while it waits for its other limit lets the next one in", async () => {
  const { fresh, stint, ofA, ofB, first, second } = await twoUnderBoth();
  // The first one continues waiting for the other limit. No further job does: there is one place.
  await end(fresh, ofA);
  await stint.cancel(first.id, { reason: "test" });

  await end(fresh, ofB);
  expect(await readyJobs(fresh)).toEqual([second.id]);
});

test("a waiting job that is given other keys leaves its place to the next one", async () => {
  const { fresh, ofA, ofB, first, second } = await twoUnderBoth();
  await end(fresh, ofA);
  await fresh.sql(`delete from stint.limit_missed`);
  await fresh.sql(
    `select stint.change_limits(j, j.state, j.priority, '{"limits": []}') from stint.job j where j.id = $1`,
    [first.id],
  );
  const missed = await fresh.sql(`select key from stint.limit_missed order by key`);
  expect(missed).toEqual([{ key: "key:a" }, { key: "key:b" }]);
  await fresh.sql(`select stint.tend_limits(false)`);

  await end(fresh, ofB);
  expect((await readyJobs(fresh)).sort()).toEqual([first.id, second.id].sort());
});

/** The jobs that hold a place of the key. */
const holders = async (fresh: Fresh, key: string): Promise<string[]> =>
  (
    await fresh.sql<{ id: string }>(`select job_id as id from stint.limit_place where key = $1 and holds`, [
      key,
    ])
  ).map(({ id }) => id);

test("a paused job takes no place from those that wait behind it", async () => {
  const fresh = await withLimits();
  const stint = fresh.client();
  const ofA = await runOne(fresh, underA);
  const paused = await stint.enqueue(underBoth, {});
  const behind = await stint.enqueue(underA, {});
  await claimAll(fresh);
  await stint.pauses.pause({ kind: "under-bo*" }, { reason: "test" });
  await end(fresh, ofA);
  expect(await holders(fresh, "key:a")).toEqual([behind.id]);
  // It waits for the end of the pause among the ready jobs.
  expect((await readyJobs(fresh)).sort()).toEqual([paused.id, behind.id].sort());
  expect((await fresh.sql(`select from stint.limit_place`)).length).toBe(1);
});

test("a replaced job waits for its new key and its new time, and is counted right", async () => {
  const fresh = await withLimits();
  const stint = fresh.client();
  const dedupe = { key: "latest", replace: true } as const;
  const ofA = await runOne(fresh, underA);
  const keyed = await stint.enqueue(underKey, { account: "x" });
  await claimAll(fresh);
  const replaced = await stint.enqueue(underKey, { account: "x" }, { dedupe });
  const moved = await stint.enqueue(underA, {}, { dedupe });
  const next = await stint.enqueue(underA, {});
  await claimAll(fresh);
  expect(await holders(fresh, "key:a=x")).toEqual([keyed.id]);
  await stint.enqueue(underKey, { account: "y" }, { dedupe });
  expect(await readyJobs(fresh)).toEqual([replaced.id]);

  await stint.enqueue(underA, {}, { dedupe, delay: "1h" });
  await end(fresh, ofA);
  expect(await holders(fresh, "key:a")).toEqual([next.id]);
  expect((await stint.get(moved.id))?.state).toBe("scheduled");
  expect(await wrongTallies(fresh)).toEqual([]);
});

test("jobs that no worker claims make way for others, but not while one is claimed", async () => {
  const fresh = await withLimits();
  const stint = fresh.client();
  const ofA = await runOne(fresh, underA);
  const unclaimed = [await stint.enqueue(underBoth, {}), await stint.enqueue(underBoth, {})];
  const behind = await stint.enqueue(underA, {});
  await claimAll(fresh);
  await end(fresh, ofA);
  const [first] = unclaimed;
  expect(await holders(fresh, "key:a")).toEqual([first!.id]);
  await fresh.sql(`update stint.limit_place set at = at - interval '1 minute'`);

  const claiming = await adminClient(fresh.url);
  try {
    await claiming.query("begin");
    await claiming.query(`select from "${fresh.schema}".job where id = $1 for update`, [first!.id]);
    await tendLimits(fresh.db, true, "w");
    expect(await holders(fresh, "key:a")).toEqual([first!.id]);
  } finally {
    await claiming.end();
  }
  await tendLimits(fresh.db, true, "w");
  expect(await holders(fresh, "key:a")).toEqual([behind.id]);
  expect((await readyJobs(fresh)).sort()).toEqual([behind, ...unclaimed].map(({ id }) => id).sort());
});

test("a job that stays in quarantine for minutes leaves its place to those that wait", async () => {
  const fresh = await withLimits();
  const { fence } = await runOne(fresh, underA);
  const next = await fresh.client().enqueue(underA, {});
  await claimAll(fresh);
  const quarantine = async (age: string): Promise<unknown> =>
    await fresh.sql(
      `update stint.job set state = 'parked', park_reason = 'quarantine', run_at = clock_timestamp() - $2::interval,
         lease_id = null, lease_until = null, worker = null, claimed_at = null where id = $1`,
      [fence.job, age],
    );
  await fresh.sql(`update stint.limit_place set at = at - interval '1 hour'`);
  await quarantine("4 minutes");
  await tendLimits(fresh.db, true, "w");
  expect(await holders(fresh, "key:a")).toEqual([fence.job]);
  await quarantine("6 minutes");
  await tendLimits(fresh.db, true, "w");
  expect(await holders(fresh, "key:a")).toEqual([next.id]);
});

// Of a job under one limit: cost.test.ts.
test("a freed place of two limits reads few blocks behind 10,000 waiting jobs", async () => {
  const fresh = await withLimits(2);
  const stint = fresh.client();
  for (let n = 0; n < 10; n++)
    await stint.enqueueMany(Array.from({ length: 1_000 }, () => entry(underBoth, {})));
  await claimAll(fresh, 3);
  while ((await claimAll(fresh, 1)).length > 0 || (await readyJobs(fresh)).length > 0);
  const [waiting] = await fresh.sql(
    `select count(*)::integer as count from stint.limit_place where not holds`,
  );
  expect(waiting).toEqual({ count: 9_998 });

  const admin = await adminClient(fresh.url);
  onTestFinished(() => admin.end());
  await admin.query(`vacuum analyze "${fresh.schema}".job, "${fresh.schema}".limit_place`);
  const blocks = await fewestBlocks(
    admin,
    fresh,
    `select stint.free_places(array(select p.job_id from stint.limit_place p where p.holds limit 1), '{succeeded}')`,
  );
  // 69 without dead entries, which stay as long as another test has an open transaction. It was 269.
  expect(blocks).toBeLessThanOrEqual(150);
});
