import { expect, test } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import { ClaimLeases, type LeasedJob } from "./claim-leases.ts";
import { stage } from "./lease-messages.ts";
import { Slots } from "./slots.ts";

const later = 10_000;

/** A claim that was answered at once. */
const at = (ms: number): { sentAt: number; at: number } => ({ sentAt: ms, at: ms });

const job = claimedJob;

/** The jobs of one claim, as they wait; those named were handed back meanwhile. */
function hold(jobs: readonly ClaimedJob[], released: readonly string[] = []): LeasedJob[] {
  const claim = {
    leaseId: "l",
    sentAt: 0,
    firstSerial: 1,
    jobs: jobs.map(({ fence }) => fence.job),
    epochs: jobs.map(() => 1),
    kinds: jobs.map(({ kind }) => kind),
    leaseMs: jobs.map(() => 30_000),
    renewUntil: jobs.map(() => 60_000),
    stages: new Uint8Array(new SharedArrayBuffer(jobs.length)),
  };
  const held = new ClaimLeases(claim, () => undefined);
  const entries = jobs.map((each, index) => ({ job: each, held, index }));
  handBack(entries.filter((entry) => released.includes(entry.job.fence.job)));
  return entries;
}

/** What the lease thread does. */
function handBack(entries: readonly LeasedJob[]): void {
  for (const { held, index } of entries) held.claim.stages[index] = stage.released;
}

const named = (count: number, options = {}): ClaimedJob[] =>
  Array.from({ length: count }, (_, n) => job(`job-${String(n).padStart(3, "0")}`, options));
const one = (slots: number): Slots => new Slots([{ name: "main", queues: ["main"], slots }]);
const names = (entries: readonly LeasedJob[]): string[] => entries.map((entry) => entry.job.fence.job);

/** Slots whose pool has been seen to end one job a millisecond: it claims fifty ahead. */
function quick(slots: number): Slots {
  const pool = one(slots);
  const takes = pool.takes(0);
  pool.claimed(takes, [], at(0));
  for (let n = 0; n < 100; n++) {
    pool.take("main");
    pool.free("main", 0.01);
    pool.recorded("main");
  }
  pool.claimed(takes, [], at(100));
  pool.mayHaveWork();
  return pool;
}

function drain(slots: Slots, queue = "main"): string[] {
  const begun: LeasedJob[] = [];
  for (let entry = slots.next(queue); entry !== undefined; entry = slots.next(queue)) begun.push(entry);
  return names(begun);
}

test("a claim asks for the free slots of every pool", () => {
  const slots = new Slots([
    { name: "a", queues: ["a"], slots: 3 },
    { name: "b", queues: ["b"], slots: 1 },
  ]);
  slots.take("a");
  expect(slots.takes(0)).toEqual([
    { queue: "a", limit: 2 },
    { queue: "b", limit: 1 },
  ]);
  slots.take("b");
  expect(slots.takes(0)).toEqual([{ queue: "a", limit: 2 }]);
  expect([slots.busy, slots.saturated]).toEqual([2, false]);
  slots.take("a");
  slots.take("a");
  expect(slots.takes(0)).toEqual([]);
  expect([slots.busy, slots.saturated]).toEqual([4, true]);
});

test("a quick pool asks for more than its free slots, and again only when half of that has been begun", () => {
  const slots = quick(4);
  expect(slots.takes(later)).toEqual([{ queue: "main", limit: 54 }]);

  slots.wait(hold(named(54)));
  expect(drain(slots)).toHaveLength(4);
  expect(slots.wants("main", later)).toBe(false);
  expect(slots.takes(later)).toEqual([]);
  for (let n = 0; n < 25; n++) {
    slots.free("main", 0.01);
    drain(slots);
  }
  expect(slots.wants("main", later)).toBe(true);
  expect(slots.takes(later)).toEqual([{ queue: "main", limit: 25 }]);
});

test("one claim brings no more than a thousand ahead, but never less than there are slots", () => {
  const fill = (slots: Slots): Slots => {
    const takes = slots.takes(0);
    slots.claimed(takes, [], at(0));
    for (let n = 0; n < 10_000; n++) {
      slots.take("main");
      slots.free("main", 0.01);
    }
    slots.claimed(takes, [], at(1));
    slots.mayHaveWork();
    return slots;
  };
  expect(fill(one(4)).takes(later)).toEqual([{ queue: "main", limit: 1_000 }]);
  expect(fill(one(3_000)).takes(later)).toEqual([{ queue: "main", limit: 3_000 }]);
});

test("for a second after a claim brought a job whose worker had died, only free slots are filled", () => {
  const slots = quick(4);
  slots.claimed(slots.takes(1_000), named(54, { crashes: 1 }), at(1_000));

  expect(slots.takes(1_999)).toEqual([{ queue: "main", limit: 4 }]);
  expect(slots.takes(2_000)[0]?.limit).toBeGreaterThan(4);
});

test("the queues of a pool are asked together, with equal shares of what the pool has room for", () => {
  const slots = new Slots([{ name: "pool", queues: ["a", "b", "c"], slots: 4 }]);
  const takes = slots.takes(0);
  const pool = { limit: 4 };
  expect(takes).toEqual(["a", "b", "c"].map((queue) => ({ queue, limit: 2, pool })));
  expect(new Set(takes.map((take) => take.pool)).size).toBe(1);
  slots.claimed(takes, [job("x", { queue: "a" })], at(1));
  expect(slots.takes(2)).toEqual([]);
  expect(slots.wants("a", 2)).toBe(false);

  expect(slots.mayHaveWork("a")).toBe(true);
  expect(slots.takes(5)).toEqual([{ queue: "a", limit: 4 }]);
  expect(slots.mayHaveWork("elsewhere")).toBe(false);
});

test("a pool of many queues is searched for those with ready jobs, and asks the ones that were found", () => {
  const slots = new Slots([{ name: "pool", queues: ["tenant-*", "vip"], slots: 4 }]);
  expect([slots.takes(0), slots.askedQueues, slots.searchInMs(0)]).toEqual([[], [], 0]);
  expect(slots.search?.start()).toEqual([
    { first: "tenant-", until: "tenant." },
    { first: "vip", until: "vip\u0001" },
  ]);
  slots.search?.done({ queues: [], after: null }, at(0));
  expect([slots.mayHaveWork("tenant-7"), slots.mayHaveWork("other")]).toEqual([true, false]);

  expect(slots.takes(1)).toEqual([{ queue: "tenant-7", limit: 4 }]);
});

test("a queue that was spoken of while its claim was under way is not dry, whatever the claim brought", () => {
  const slots = one(2);
  const takes = slots.takes(0);
  slots.mayHaveWork("main");
  slots.claimed(takes, [], at(1));
  expect(slots.takes(2)).toEqual([{ queue: "main", limit: 2 }]);
  slots.claimed(takes, [], at(3));
  expect(slots.takes(4)).toEqual([]);
});

test("jobs begin in the order of the claim, over several claims, as far as there are slots", () => {
  const slots = one(3);
  slots.wait(hold([job("b"), job("d"), job("c", { priority: 1 })]));
  slots.wait(hold([job("z", { priority: -1 }), job("a"), job("e")]));
  expect(drain(slots)).toEqual(["z", "a", "b"]);
  expect(slots.busy).toBe(6);
  slots.free("main", 1);
  slots.free("main", 1);
  expect(drain(slots)).toEqual(["d", "e"]);
});

test("of a pool with several queues they take turns, each in the order of the claim", () => {
  const slots = new Slots([{ name: "pool", queues: ["first", "second"], slots: 4 }]);
  const second = { queue: "second" };
  slots.wait(hold([job("a", second), job("b", second), job("d", second)]));
  slots.wait(hold([job("c", { queue: "first", priority: 9 }), job("z", { ...second, priority: -9 })]));

  expect(drain(slots, "first")).toEqual(["z", "c", "a", "b"]);
});

test("one that was handed back while it waited is not begun, and the next is", () => {
  const slots = one(1);
  slots.wait(hold([job("a"), job("b")], ["a"]));

  expect(drain(slots)).toEqual(["b"]);
  expect(slots.busy).toBe(1);
});

test("those that are withdrawn are answered and no longer wait; one that was handed back is only forgotten", () => {
  const slots = one(1);
  slots.wait(hold([job("a"), job("b", { crashes: 1 }), job("c", { crashes: 2 }), job("d")], ["c"]));

  expect(names(slots.withdraw(({ crashes }) => crashes > 0))).toEqual(["b"]);
  expect(slots.busy).toBe(2);
  expect(drain(slots)).toEqual(["a"]);
  expect(names(slots.withdraw())).toEqual(["d"]);
  expect([slots.busy, slots.saturated]).toEqual([1, true]);
});

test("when jobs that waited were handed back, the pool forgets how quick it was", () => {
  const slots = quick(2);
  const entries = hold(named(10));
  slots.wait(entries);
  drain(slots);
  slots.forgetReleased();
  expect(slots.takes(later)).toHaveLength(1);
  handBack(entries.slice(5));
  slots.forgetReleased();

  expect(slots.busy).toBe(5);
  expect(slots.takes(later)).toEqual([]);
  slots.withdraw();
  slots.free("main", 0.01);
  expect(slots.takes(later)).toEqual([{ queue: "main", limit: 1 }]);
});

test("it forgets that, too, when it meets them itself before it was told", () => {
  const slots = quick(1);
  const entries = hold(named(10));
  slots.wait(entries);
  handBack(entries);
  expect(drain(slots)).toEqual([]);
  slots.forgetReleased();

  expect(slots.takes(later)).toEqual([{ queue: "main", limit: 1 }]);
});

test("jobs fit if each has a slot that nothing else waits for", () => {
  const slots = new Slots([
    { name: "a", queues: ["a"], slots: 2 },
    { name: "b", queues: ["b"], slots: 1 },
  ]);
  const of = (...queues: string[]): ClaimedJob[] => queues.map((queue, n) => job(`job-${n}`, { queue }));
  expect(slots.fits(of("a", "a", "b"))).toBe(true);
  expect(slots.fits(of("a", "b", "b"))).toBe(false);
  slots.take("a");
  expect(slots.fits(of("a", "b"))).toBe(true);
  slots.wait(hold(of("a")));
  expect(slots.fits(of("a"))).toBe(false);
  expect(slots.fits(of("b"))).toBe(true);
});

test("a slot that was taken for nothing is free again, and says nothing of how quick the pool is", () => {
  const slots = one(1);
  slots.take("main");
  slots.giveUp("main");

  expect(slots.busy).toBe(0);
  slots.claimed(slots.takes(0), [], at(1));
  slots.mayHaveWork();
  expect(slots.takes(later)).toEqual([{ queue: "main", limit: 1 }]);
});
