import { expect, test } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import { Floors } from "./floors.ts";

const job = (id: string, second: number, { priority = 0, queue = "main" } = {}): ClaimedJob =>
  claimedJob(id, { queue, priority, runAt: `2026-01-01 00:00:${String(second).padStart(2, "0")}+00` });
const floorOf = ({ queue, priority, runAt, fence }: ClaimedJob): object => {
  const floor: object = { queue, priority, runAt, id: fence.job };
  return expect.objectContaining(floor) as object;
};
/** A sweep of one millisecond that was over at `at`, and the queues that gave all they were asked for. The next may be 19 ms later. */
const sweep = (at: number, ...full: string[]): { sentAt: number; full: Set<string> } => ({
  sentAt: at - 1,
  full: new Set(full),
});

const both = ["main", "side"];

/** Floors that have used up what sweeps may take at first: from now on every one is paid for. */
function usedFloors(): Floors {
  const floors = new Floors();
  floors.claimed(both, [], 0, { sentAt: -100, full: new Set() });
  return floors;
}

test("the first claim is a sweep, and so is each one whose sweep is due", () => {
  expect(new Floors().from(["main"], 0)).toBeUndefined();
  const floors = usedFloors();
  floors.claimed(both, [job("a", 1)], 1, sweep(1, "main"));

  expect(floors.from(["main"], 2)).toHaveLength(1);
  expect(floors.from(["main"], 19)).toHaveLength(1);
  expect(floors.from(["main"], 21)).toBeUndefined();
});

test("each queue and priority continues after its last job, the most urgent first", () => {
  const floors = usedFloors();
  const last = [job("b", 2, { priority: -4 }), job("c", 3), job("e", 1, { priority: 7 })];
  const side = job("s", 9, { queue: "side" });
  floors.claimed(both, [job("a", 1), job("z", 2), ...last, side], 1, sweep(1, "main"));

  expect(floors.from(["main"], 2)).toEqual(last.map(floorOf));
  expect(floors.from(["side"], 2)).toEqual([floorOf(side)]);
  expect(floors.from(["main", "side"], 2)).toHaveLength(4);
});

test("a queue without a taken job has no floor, and is swept", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("a", 1)], 1, sweep(1, "main"));

  expect(floors.from(["main"], 2)).toHaveLength(1);
  expect(floors.from(["elsewhere"], 2)).toBeUndefined();
});

test("a queue that is rarely asked is swept when it is, however often others are", () => {
  const floors = usedFloors();
  floors.claimed(["main", "side"], [job("a", 1), job("s", 1, { queue: "side" })], 1, sweep(1, "main"));
  for (let at = 2; at < 5_000; at += 20) floors.claimed(["main"], [], at, sweep(at));

  expect(floors.from(["main"], 5_001)).toHaveLength(1);
  expect(floors.from(["side"], 5_001)).toBeUndefined();
});

test("a claim from the floors raises them", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("a", 1)], 1, sweep(1, "main"));
  floors.claimed(both, [job("b", 2), job("c", 2)], 2);

  expect(floors.from(["main"], 2)).toEqual([floorOf(job("c", 2))]);
});

test("a full sweep lowers the floors to its last jobs", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("x", 50), job("y", 50, { priority: 3 })], 1, sweep(1, "main"));
  floors.claimed(both, [job("a", 1), job("b", 2)], 21, sweep(21, "main"));

  expect(floors.from(["main"], 22)).toEqual([floorOf(job("b", 2)), floorOf(job("y", 50, { priority: 3 }))]);
});

test("a sweep that took everything raises floors, and lowers none", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("x", 50), job("y", 50, { priority: 3 })], 1, sweep(1, "main"));
  floors.claimed(both, [job("a", 1), job("z", 51, { priority: 3 })], 21, sweep(21));

  expect(floors.from(["main"], 22)).toEqual([floorOf(job("x", 50)), floorOf(job("z", 51, { priority: 3 }))]);
});

test("a sweep of several queues lowers the floors of the full ones only", () => {
  const floors = usedFloors();
  const side = { queue: "side" };
  floors.claimed(both, [job("x", 50), job("y", 50, side)], 1, sweep(1, "main", "side"));
  floors.claimed(both, [job("a", 1), job("b", 1, side)], 21, sweep(21, "side"));

  expect(floors.from(["main"], 22)).toEqual([floorOf(job("x", 50))]);
  expect(floors.from(["side"], 22)).toEqual([floorOf(job("b", 1, side))]);
});

test("between jobs of the same moment the id decides which floor is higher", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("m", 5)], 1, sweep(1, "main"));
  floors.claimed(both, [job("k", 5)], 21, sweep(21));
  expect(floors.from(["main"], 22)).toEqual([floorOf(job("m", 5))]);
  floors.claimed(both, [job("n", 5)], 41, sweep(41));
  expect(floors.from(["main"], 42)).toEqual([floorOf(job("n", 5))]);
});

test("a queue with too many priorities in use is swept for a while; others are not", () => {
  const floors = usedFloors();
  const many = Array.from({ length: 33 }, (_, priority) => job("a", 1, { priority }));
  floors.claimed(both, [...many, job("s", 1, { queue: "side" })], 1, sweep(1, "main"));

  expect(floors.from(["main"], 2)).toBeUndefined();
  expect(floors.from(["main", "side"], 2)).toBeUndefined();
  expect(floors.from(["side"], 2)).toHaveLength(1);
});

test("priorities that were used once are forgotten, and cause no sweeps", () => {
  const floors = usedFloors();
  let at = 0;
  for (let priority = 0; priority < 100; priority++) {
    at = 1 + priority * 2_000;
    floors.claimed(both, [job("a", 1, { priority })], at, { sentAt: at - 100, full: new Set() });
  }

  const now = floors.from(["main"], at + 1)!;
  expect(now).toHaveLength(32);
  expect(now.at(-1)).toEqual(floorOf(job("a", 1, { priority: 99 })));
});

test("a sweep of one queue does not count for another", () => {
  const floors = usedFloors();
  floors.claimed(both, [], 1, sweep(1));
  floors.claimed(["main", "side"], [], 2);
  floors.claimed(["main"], [], 30, sweep(30));
  expect(floors.owedInMs(31)).toBeDefined();
  floors.claimed(["side"], [], 60, sweep(60));
  expect(floors.owedInMs(61)).toBeUndefined();
});

test("after a claim from the floors a sweep is due as soon as allowed, once", () => {
  const floors = usedFloors();
  floors.claimed(both, [job("a", 1)], 1, sweep(1, "main"));
  expect(floors.owedInMs(5)).toBeUndefined();
  floors.claimed(both, [], 4);
  expect(floors.owedInMs(5)).toBeCloseTo(15);
  expect(floors.owedInMs(99)).toBe(0);
  floors.claimed(both, [], 100, sweep(100));
  expect(floors.owedInMs(100)).toBeUndefined();
});

test("a sweep of few jobs as quick as a claim from the floors costs nothing", () => {
  const floors = usedFloors();
  floors.measured(2, 1);
  floors.claimed(["main"], [job("a", 1)], 10, { sentAt: 8, full: new Set() });
  for (let at = 12; at < 100; at += 2) {
    expect(floors.from(["main"], at)).toBeUndefined();
    floors.claimed(["main"], [job("b", 2)], at + 2, { sentAt: at, full: new Set() });
  }
  expect(floors.owedInMs(100)).toBeUndefined();
});

test("of a slower sweep the difference counts, and floors are used again", () => {
  const floors = usedFloors();
  floors.measured(2, 1);
  floors.claimed(["main"], [job("a", 1)], 22, { sentAt: 10, full: new Set() });

  expect(floors.from(["main"], 23)).toHaveLength(1);
  // Ten milliseconds more than a claim from the floors: two hundred without a sweep.
  floors.claimed(["main"], [], 24);
  expect(floors.owedInMs(24)).toBeGreaterThan(150);
  expect(floors.owedInMs(24)).toBeLessThan(200);
});

test("however slow claims from the floors are, a sweep of more than 5 ms is paid for", () => {
  const floors = usedFloors();
  for (let n = 0; n < 50; n++) floors.measured(1_000, 1);
  floors.claimed(["main"], [job("a", 1)], 30, { sentAt: 10, full: new Set() });
  expect(floors.from(["main"], 31)).toHaveLength(1);
});

test("claims of many jobs are not compared with those of few", () => {
  const floors = usedFloors();
  floors.measured(4, 500);
  floors.claimed(["main"], [job("a", 1)], 12, { sentAt: 10, full: new Set() });
  expect(floors.from(["main"], 13)).toHaveLength(1);
});

test("after a hundred sweeps one claim measures the floors again", () => {
  const floors = usedFloors();
  floors.measured(2, 1);
  for (let at = 10; at < 210; at += 2)
    floors.claimed(["main"], [job("a", 1)], at + 1, { sentAt: at, full: new Set() });
  expect(floors.from(["main"], 211)).toHaveLength(1);
  floors.measured(1, 0);
  expect(floors.from(["main"], 213)).toBeUndefined();
});
