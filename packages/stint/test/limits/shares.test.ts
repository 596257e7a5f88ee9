import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { claim } from "#stint/sql/claim.js";
import { tendLimits } from "#stint/sql/limits.js";
import { succeed } from "#stint/sql/succeed.js";
import { leaveShares, openShares, placesFor, takeShare } from "#stint/sql/take-places.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

type Call = { account: string };

const call = defineJob("call", { payload: typed<Call>(), limits: [{ max: 10 }] });
const byAccount = defineJob("by-account", {
  payload: typed<Call>(),
  limits: [{ name: "account", key: ({ account }) => account, max: 10 }],
});

async function withJobs(job: typeof call, rule: string, count = 30): Promise<Fresh> {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.limits.set(rule, 10, { reason: "test" });
  await stint.enqueueMany(Array.from({ length: count }, (_, n) => entry(job, { account: `a${n % 2}` })));
  return fresh;
}

/** Claims as this worker does, without taking places. */
const claimAs = async (fresh: Fresh, worker: string, limit: number): Promise<ClaimedJob[]> =>
  await claim(fresh.db, {
    worker,
    leaseId: randomUUID(),
    takes: [{ queue: "default", limit }],
    kinds: ["call", "by-account"],
    kindLeaseMs: {},
    leaseMs: 60_000,
  });

const fences = (jobs: readonly ClaimedJob[]): ClaimedJob["fence"][] => jobs.map(({ fence }) => fence);

async function outcomes(fresh: Fresh, jobs: readonly ClaimedJob[]): Promise<string[]> {
  return [...(await placesFor(fresh.db, fences(jobs))).values()].sort();
}

const room = { least: 1, most: 1_000 };

test("a worker under a limit with room to spare writes no place for each job", async () => {
  const fresh = await withJobs(call, "kind:call");
  const stint = fresh.client();
  const opened = gate();
  let running = 0;
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(call, async () => {
        running += 1;
        await opened.opened;
      }),
    ],
  });
  await worker.start();
  await until(() => running === 4, { message: "all slots are busy" });

  expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
  expect(await fresh.sql(`select name, places, closed from stint.limit_share`)).toEqual([
    { name: "kind:call", places: 5, closed: false },
  ]);
  expect(await stint.limits.keys()).toMatchObject([{ key: "kind:call", max: 10, held: 4, waiting: 0 }]);
  opened.open();
  await until(async () => (await fresh.sql(`select from stint.history`)).length === 30, {
    message: "all jobs have run",
  });
  await worker.stop();
  expect(await fresh.sql(`select * from stint.limit_share`)).toEqual([]);
});

test("a worker that needs the room of a share leaves it no more than its running jobs", async () => {
  const fresh = await withJobs(call, "kind:call");
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBe(5);
  const covered = await claimAs(fresh, "a", 3);
  expect(await openShares(fresh.db, "a")).toEqual(["kind:call"]);

  const others = await claimAs(fresh, "b", 8);
  expect(await outcomes(fresh, others)).toEqual([...Array<string>(7).fill("taken"), "waits"]);
  expect(await fresh.sql(`select name, worker, places, closed from stint.limit_share`)).toEqual([
    { name: "kind:call", worker: "a", places: 3, closed: true },
  ]);
  const late = await claimAs(fresh, "a", 1);
  expect(late).toEqual([]);
  expect(await openShares(fresh.db, "a")).toEqual([]);
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBeNull();

  await succeed(fresh.db, fences(covered.slice(0, 2)));
  expect(await tendLimits(fresh.db, false, "a")).toMatchObject({ more: true, closedShares: ["kind:call"] });
  const freed = await fresh.sql(`select count(*)::integer as count from stint.job where state = 'ready'`);
  expect(freed).toEqual([{ count: 2 }]);
});

test("jobs of a closed share count for their own key only", async () => {
  const fresh = await withJobs(byAccount, "key:account");
  expect(await takeShare(fresh.db, "a", "key:account", room)).toBe(5);
  // Two of one account, two of the other.
  await claimAs(fresh, "a", 4);
  expect(await openShares(fresh.db, "a")).toEqual(["key:account"]);

  const others = await claimAs(fresh, "b", 20);
  expect(await outcomes(fresh, others)).toEqual([
    ...Array<string>(16).fill("taken"),
    ...Array<string>(4).fill("waits"),
  ]);
  expect(await fresh.sql(`select name, places from stint.limit_share order by name`)).toEqual([
    { name: "key:account", places: 0 },
    { name: "key:account=a0", places: 2 },
    { name: "key:account=a1", places: 2 },
  ]);
  const keys = await fresh.client().limits.keys();
  expect(keys.map(({ key, held }) => [key, held])).toEqual([
    ["key:account=a0", 10],
    ["key:account=a1", 10],
  ]);
});

test("a share that is being confirmed is counted in full, and closed by upkeep", async () => {
  const fresh = await withJobs(call, "kind:call");
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBe(5);
  const confirming = await adminClient(fresh.url);
  try {
    await confirming.query("begin");
    const confirmed = `select "${fresh.schema}".open_shares('a') as shares`;
    expect((await confirming.query(confirmed)).rows).toEqual([{ shares: '["kind:call"]' }]);
    const others = await claimAs(fresh, "b", 8);
    expect(await outcomes(fresh, others)).toEqual([
      ...Array<string>(5).fill("taken"),
      ...Array<string>(3).fill("waits"),
    ]);
    await confirming.query("commit");
  } finally {
    await confirming.end();
  }
  await tendLimits(fresh.db, false, "b");
  expect(await fresh.sql(`select * from stint.limit_share`)).toEqual([]);
  const letIn = await fresh.sql(`select count(*)::integer as count from stint.limit_place where holds`);
  expect(letIn).toEqual([{ count: 10 }]);
});

test("upkeep closes the share of a worker that confirms it again and again", async () => {
  const fresh = await withJobs(call, "kind:call");
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBe(5);
  const confirming = await adminClient(fresh.url);
  const confirm = `begin; select "${fresh.schema}".open_shares('a')`;
  const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%tend-limits%' and query like '%' || $1 || '%'`;
  try {
    await confirming.query(confirm);
    expect(await outcomes(fresh, await claimAs(fresh, "b", 8))).toContain("waits");
    // One turn is enough, unless this process is stopped for longer than upkeep waits.
    await until(
      async () => {
        let isOver = false;
        const tended = tendLimits(fresh.db, false, "b").finally(() => (isOver = true));
        await until(async () => isOver || (await fresh.sql(waits, [fresh.schema])).length > 0, {
          message: "upkeep waits for the claim, or is over",
        });
        await confirming.query("commit");
        await tended;
        await confirming.query(confirm);
        return (await fresh.sql(`select from stint.limit_share where not closed`)).length === 0;
      },
      { message: "the share is closed" },
    );
  } finally {
    await confirming.end();
  }
});

test("a raised limit lets waiting jobs in at the next look of upkeep", async () => {
  const fresh = await withJobs(call, "kind:call");
  const running = await claimAs(fresh, "a", 12);
  expect(await outcomes(fresh, running)).toEqual([
    ...Array<string>(10).fill("taken"),
    ...Array<string>(2).fill("waits"),
  ]);
  await fresh.client().limits.set("kind:call", 13, { reason: "test" });
  await tendLimits(fresh.db, false, "a");
  const letIn = await fresh.sql(`select count(*)::integer as count from stint.limit_place where holds`);
  expect(letIn).toEqual([{ count: 13 }]);
});

test("a share is refused while places are given, and shares leave room for others", async () => {
  const fresh = await withJobs(call, "kind:call");
  const giving = await adminClient(fresh.url);
  try {
    await giving.query("begin");
    await giving.query(`select "${fresh.schema}".lock_keys(array['kind:other'])`);
    expect(await takeShare(fresh.db, "a", "kind:call", room)).toBeNull();
    await giving.query("commit");
  } finally {
    await giving.end();
  }
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBe(5);
  expect(await takeShare(fresh.db, "a", "kind:call", room)).toBe(5);
  expect(await takeShare(fresh.db, "b", "kind:call", room)).toBe(2);
  expect(await takeShare(fresh.db, "c", "kind:call", { least: 2, most: 9 })).toBeNull();
  expect(await takeShare(fresh.db, "c", "kind:unknown", room)).toBeNull();
});

test("a lowered limit closes the shares, and counts the jobs that run in them", async () => {
  const fresh = await withJobs(call, "kind:call");
  await takeShare(fresh.db, "a", "kind:call", room);
  const covered = await claimAs(fresh, "a", 3);
  await fresh.client().limits.set("kind:call", 4, { reason: "test" });

  expect(await openShares(fresh.db, "a")).toEqual([]);
  const others = await claimAs(fresh, "b", 3);
  expect(await outcomes(fresh, others)).toEqual(["taken", "waits", "waits"]);
  expect(await succeed(fresh.db, fences(covered))).toHaveProperty("size", 3);
  expect(await fresh.sql(`select count(*)::integer as count from stint.limit_place where holds`)).toEqual([
    { count: 4 },
  ]);
});

test("the share of a dead worker is closed, and gone after its last job is rescued", async () => {
  const fresh = await withJobs(call, "kind:call");
  await takeShare(fresh.db, "dead", "kind:call", room);
  const [lost] = await claimAs(fresh, "dead", 1);
  await tendLimits(fresh.db, true, "w");
  expect(await fresh.sql(`select worker, places, closed from stint.limit_share`)).toEqual([
    { worker: "dead", places: 1, closed: true },
  ]);
  await fresh.sql(
    `update stint.job set state = 'ready', lease_id = null, lease_until = null, worker = null, claimed_at = null where id = $1`,
    [lost!.fence.job],
  );
  await tendLimits(fresh.db, false, "w");
  expect(await fresh.sql(`select * from stint.limit_share`)).toEqual([]);
});

test("a worker that ends gives up its shares", async () => {
  const fresh = await withJobs(call, "kind:call");
  await takeShare(fresh.db, "a", "kind:call", room);
  await leaveShares(fresh.db, "a");
  expect(await fresh.sql(`select * from stint.limit_share`)).toEqual([]);
});
