import { expect, test } from "vitest";
import { claimedJob, leasedJobs } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { PoolOptions } from "./options.ts";
import type { Pool } from "./pool.ts";
import { stage } from "./lease-messages.ts";
import { Pools } from "./pools.ts";

const later = 10_000;

/** A claim that returned at once. */
const at = (ms: number): { sentAt: number; at: number } => ({ sentAt: ms, at: ms });

const job = claimedJob;

/** The jobs of one claim, as they wait; those named were released by the lease thread. */
function hold(jobs: readonly ClaimedJob[], released: readonly string[] = []): LeasedJob[] {
  const entries = leasedJobs(jobs);
  releaseByThread(entries.filter((entry) => released.includes(entry.job.fence.job)));
  return entries;
}

/** What the lease thread does. */
function releaseByThread(entries: readonly LeasedJob[]): void {
  for (const { leases, index } of entries) leases.claim.stages[index] = stage.released;
}

const named = (count: number, options = {}): ClaimedJob[] =>
  Array.from({ length: count }, (_, n) => job(`job-${String(n).padStart(3, "0")}`, options));
const rules = {
  isCrashSuspect: ({ crashes }: ClaimedJob) => crashes > 0,
  isLimited: ({ limits }: ClaimedJob) => limits !== null,
  prefetches: true,
  excludes: () => false,
  limited: { ahead: 0, room: Infinity },
};
const make = (...pools: PoolOptions[]): Pools => new Pools(pools, rules);
const one = (slots: number): Pools => make({ name: "main", queues: ["main"], slots });
const poolOf = (pools: Pools, queue = "main"): Pool => pools.find(queue) as Pool;
const ids = (jobs: readonly ClaimedJob[]): string[] => jobs.map(({ fence }) => fence.job);
const names = (entries: readonly LeasedJob[]): string[] => entries.map((entry) => entry.job.fence.job);

/** A pool that has ended one job a millisecond: it prefetches fifty. */
function quick(slots: number, limited = rules.limited): Pools {
  const pools = new Pools([{ name: "main", queues: ["main"], slots }], { ...rules, limited });
  const takes = pools.takes(0);
  pools.claimed(takes, [], at(0));
  for (let n = 0; n < 100; n++) {
    poolOf(pools).takeSlot();
    poolOf(pools).freeSlot(0.01);
    poolOf(pools).recorded();
  }
  pools.claimed(takes, [], at(100));
  pools.mayHaveWork();
  return pools;
}

function drain(pools: Pools, queue = "main"): string[] {
  const begun: LeasedJob[] = [];
  const pool = poolOf(pools, queue);
  for (let entry = pool.next(); entry !== undefined; entry = pool.next()) begun.push(entry);
  return names(begun);
}

test("a claim asks for the free slots of every pool", () => {
  const pools = make({ name: "a", queues: ["a"], slots: 3 }, { name: "b", queues: ["b"], slots: 1 });
  poolOf(pools, "a").takeSlot();
  expect(pools.takes(0)).toEqual([
    { queue: "a", limit: 2 },
    { queue: "b", limit: 1 },
  ]);
  poolOf(pools, "b").takeSlot();
  expect(pools.takes(0)).toEqual([{ queue: "a", limit: 2 }]);
  expect([pools.busy, pools.saturated]).toEqual([2, false]);
  poolOf(pools, "a").takeSlot();
  poolOf(pools, "a").takeSlot();
  expect(pools.takes(0)).toEqual([]);
  expect([pools.busy, pools.saturated]).toEqual([4, true]);
});

test("a fast pool prefetches, and claims again once half of the prefetch has begun", () => {
  const pools = quick(4);
  expect(pools.takes(later)).toEqual([{ queue: "main", limit: 54 }]);

  pools.wait(hold(named(54)));
  expect(drain(pools)).toHaveLength(4);
  expect(pools.wants("main", later)).toBe(false);
  expect(pools.takes(later)).toEqual([]);
  for (let n = 0; n < 25; n++) {
    poolOf(pools, "main").freeSlot(0.01);
    drain(pools);
  }
  expect(pools.wants("main", later)).toBe(true);
  expect(pools.takes(later)).toEqual([{ queue: "main", limit: 25 }]);
});

test("one claim asks for at most 1,000 jobs, but never for less than the free slots", () => {
  const fill = (pools: Pools): Pools => {
    const takes = pools.takes(0);
    pools.claimed(takes, [], at(0));
    for (let n = 0; n < 10_000; n++) {
      poolOf(pools, "main").takeSlot();
      poolOf(pools, "main").freeSlot(0.01);
    }
    pools.claimed(takes, [], at(1));
    pools.mayHaveWork();
    return pools;
  };
  expect(fill(one(4)).takes(later)).toEqual([{ queue: "main", limit: 1_000 }]);
  expect(fill(one(3_000)).takes(later)).toEqual([{ queue: "main", limit: 3_000 }]);
});

test("for a second after a claim returned a crash suspect, nothing is prefetched", () => {
  const pools = quick(4);
  pools.claimed(pools.takes(1_000), named(54, { crashes: 1 }), at(1_000));

  expect(pools.takes(1_999)).toEqual([{ queue: "main", limit: 4 }]);
  expect(pools.takes(2_000)[0]?.limit).toBeGreaterThan(4);
});

test("for a second after a claim returned a job under a limit, nothing is prefetched", () => {
  const pools = quick(4);
  pools.claimed(pools.takes(1_000), named(54, { limits: [] }), at(1_000));

  expect(pools.takes(1_999)).toEqual([{ queue: "main", limit: 4 }]);
  expect(pools.takes(2_000)[0]?.limit).toBeGreaterThan(4);
});

test("with a share of a limit, no more jobs are claimed than the share has room for", () => {
  const limited = { ahead: 20, room: 15 };
  const pools = quick(4, limited);
  pools.claimed(pools.takes(1_000), named(54, { limits: [] }), at(1_000));
  expect(pools.takes(1_100)).toEqual([{ queue: "main", limit: 15 }]);

  limited.room = 10;
  expect(pools.takes(1_200)).toEqual([]);
  limited.room = 40;
  expect(pools.takes(1_300)).toEqual([{ queue: "main", limit: 24 }]);
  poolOf(pools).needsPlaces(1_300);
  expect(pools.takes(1_400)).toEqual([{ queue: "main", limit: 4 }]);
});

test("room in a full share is seen after the outcome of another pool", () => {
  const limited = { ahead: 0, room: 0 };
  const pools = new Pools(
    [
      { name: "a", queues: ["a"], slots: 1 },
      { name: "b", queues: ["b"], slots: 1 },
    ],
    { ...rules, limited },
  );
  pools.claimed(pools.takes(0), [job("first", { queue: "b", limits: [] })], at(0));
  pools.claimed([{ queue: "a", limit: 1 }], [job("second", { queue: "a", limits: [] })], at(0));
  pools.mayHaveWork("a");
  expect(pools.takes(100)).toEqual([]);
  expect([pools.isShareFull, pools.hasShareRoom(100)]).toEqual([true, false]);

  limited.room = 1;
  expect(pools.hasShareRoom(200)).toBe(true);
  expect(pools.takes(200)).toContainEqual({ queue: "a", limit: 1 });
  expect(pools.isShareFull).toBe(false);
});

test("the queues of a pool are asked together, with equal shares of its room", () => {
  const pools = make({ name: "pool", queues: ["a", "b", "c"], slots: 4 });
  const takes = pools.takes(0);
  const pool = { limit: 4 };
  expect(takes).toEqual(["a", "b", "c"].map((queue) => ({ queue, limit: 2, pool })));
  expect(new Set(takes.map((take) => take.pool)).size).toBe(1);
  pools.claimed(takes, [job("x", { queue: "a" })], at(1));
  expect(pools.takes(2)).toEqual([]);
  expect(pools.wants("a", 2)).toBe(false);

  expect(pools.mayHaveWork("a")).toBe(true);
  expect(pools.takes(5)).toEqual([{ queue: "a", limit: 4 }]);
  expect(pools.mayHaveWork("elsewhere")).toBe(false);
});

test("a pool with a pattern is searched, and asks the queues that were found", () => {
  const pools = make({ name: "pool", queues: ["tenant-*", "vip"], slots: 4 });
  expect([pools.takes(0), pools.namedQueues, pools.searchInMs(0)]).toEqual([[], [], 0]);
  expect(pools.search?.start()).toEqual([
    { first: "tenant-", until: "tenant." },
    { first: "vip", until: "vip\u0001" },
  ]);
  pools.search?.done({ queues: [], after: null }, at(0));
  expect([pools.mayHaveWork("tenant-7"), pools.mayHaveWork("other")]).toEqual([true, false]);

  expect(pools.takes(1)).toEqual([{ queue: "tenant-7", limit: 4 }]);
});

test("a queue hinted at while its claim was under way is asked again", () => {
  const pools = one(2);
  const takes = pools.takes(0);
  pools.mayHaveWork("main");
  pools.claimed(takes, [], at(1));
  expect(pools.takes(2)).toEqual([{ queue: "main", limit: 2 }]);
  pools.claimed(takes, [], at(3));
  expect(pools.takes(4)).toEqual([]);
});

test("jobs of several claims begin in claim order, as far as slots are free", () => {
  const pools = one(3);
  pools.wait(hold([job("b"), job("d"), job("c", { priority: 1 })]));
  pools.wait(hold([job("z", { priority: -1 }), job("a"), job("e")]));
  expect(drain(pools)).toEqual(["z", "a", "b"]);
  expect(pools.busy).toBe(6);
  poolOf(pools, "main").freeSlot(1);
  poolOf(pools, "main").freeSlot(1);
  expect(drain(pools)).toEqual(["d", "e"]);
});

test("the queues of a pool take turns, each in claim order", () => {
  const pools = make({ name: "pool", queues: ["first", "second"], slots: 4 });
  const second = { queue: "second" };
  pools.wait(hold([job("a", second), job("b", second), job("d", second)]));
  pools.wait(hold([job("c", { queue: "first", priority: 9 }), job("z", { ...second, priority: -9 })]));

  expect(drain(pools, "first")).toEqual(["z", "c", "a", "b"]);
});

test("a waiting job that the lease thread released does not begin; the next one does", () => {
  const pools = one(1);
  pools.wait(hold([job("a"), job("b")], ["a"]));

  expect(drain(pools)).toEqual(["b"]);
  expect(pools.busy).toBe(1);
});

test("releasing waiting jobs leaves out those the lease thread has released", () => {
  const pools = one(1);
  pools.wait(hold([job("a"), job("b", { crashes: 1 }), job("c", { crashes: 2 }), job("d")], ["c"]));

  expect(ids(pools.releaseWaiting(({ crashes }) => crashes > 0))).toEqual(["b"]);
  expect(pools.busy).toBe(2);
  expect(drain(pools)).toEqual(["a"]);
  expect(ids(pools.releaseWaiting())).toEqual(["d"]);
  expect([pools.busy, pools.saturated]).toEqual([1, true]);
});

test("a pool whose waiting jobs were released prefetches no more", () => {
  const pools = quick(2);
  const entries = hold(named(10));
  pools.wait(entries);
  drain(pools);
  pools.forgetReleased();
  expect(pools.takes(later)).toHaveLength(1);
  releaseByThread(entries.slice(5));
  pools.forgetReleased();

  expect(pools.busy).toBe(5);
  expect(pools.takes(later)).toEqual([]);
  pools.releaseWaiting();
  poolOf(pools, "main").freeSlot(0.01);
  expect(pools.takes(later)).toEqual([{ queue: "main", limit: 1 }]);
});

test("a pool that meets released jobs before the message prefetches no more", () => {
  const pools = quick(1);
  const entries = hold(named(10));
  pools.wait(entries);
  releaseByThread(entries);
  expect(drain(pools)).toEqual([]);
  pools.forgetReleased();

  expect(pools.takes(later)).toEqual([{ queue: "main", limit: 1 }]);
});

test("jobs fit if each has a slot that no other job waits for", () => {
  const pools = make({ name: "a", queues: ["a"], slots: 2 }, { name: "b", queues: ["b"], slots: 1 });
  const of = (...queues: string[]): ClaimedJob[] => queues.map((queue, n) => job(`job-${n}`, { queue }));
  expect(pools.fits(of("a", "a", "b"))).toBe(true);
  expect(pools.fits(of("a", "b", "b"))).toBe(false);
  poolOf(pools, "a").takeSlot();
  expect(pools.fits(of("a", "b"))).toBe(true);
  pools.wait(hold(of("a")));
  expect(pools.fits(of("a"))).toBe(false);
  expect(pools.fits(of("b"))).toBe(true);
});

test("an excluded queue keeps its place in line while the others share the room", () => {
  const excluded = new Set(["b"]);
  const pools = new Pools([{ name: "pool", queues: ["a", "b", "c"], slots: 4 }], {
    ...rules,
    excludes: (queue) => excluded.has(queue),
  });
  const takes = pools.takes(0);
  expect(takes.map(({ queue, limit }) => [queue, limit])).toEqual([
    ["a", 2],
    ["c", 2],
  ]);
  pools.claimed(takes, [], at(1));
  expect([pools.takes(2), pools.isUnasked, pools.wants("b", 2)]).toEqual([[], false, false]);
  excluded.clear();

  expect(pools.takes(3)).toEqual([{ queue: "b", limit: 4 }]);
});
