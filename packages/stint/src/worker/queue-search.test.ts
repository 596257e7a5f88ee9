import { expect, test } from "vitest";
import { QueueSearch } from "./queue-search.ts";
import { recheckEmptyMs, maxQueuesPerClaim } from "./queue-turns.ts";

const at = (ms: number): { sentAt: number; at: number } => ({ sentAt: ms, at: ms });
const none = { queues: [], after: null };

test.each([
  [["b", "a", "c"], [{ first: "a", until: "c\u0001" }]],
  [["tenant-*"], [{ first: "tenant-", until: "tenant." }]],
  [["*-mail", "a"], [{ first: "", until: null }]],
  [
    ["x-*", "a", "b", "m-*"],
    [
      { first: "a", until: "b\u0001" },
      { first: "m-", until: "m." },
      { first: "x-", until: "x." },
    ],
  ],
  [["t-*", "t-eu-*", "t-x"], [{ first: "t-", until: "t." }]],
])("the queues %j are looked for in %j", (queues, ranges) => {
  expect(new QueueSearch(queues).start()).toEqual(ranges);
});

test("an unfinished search continues after its last queue, then starts over", () => {
  const search = new QueueSearch(["a-*", "m-*"]);
  search.done({ queues: [], after: "a-7" }, at(0));
  expect(search.inMs(0, 0)).toBe(0);
  expect(search.start()).toEqual([
    { first: "a-7\u0001", until: "a." },
    { first: "m-", until: "m." },
  ]);
  search.done({ queues: [], after: "m-3" }, at(0));
  expect(search.start()).toEqual([{ first: "m-3\u0001", until: "m." }]);
  search.done(none, at(0));

  expect(search.start()).toEqual(search.ranges);
});

test("after a full search it waits for a hint, unless one came meanwhile", () => {
  const search = new QueueSearch(["*"]);
  search.start();
  search.done(none, at(0));
  expect(search.inMs(0, 0)).toBe(Infinity);
  search.hint();
  expect(search.inMs(0, 0)).toBe(0);
  search.start();
  search.hint();
  search.done(none, at(0));

  expect(search.inMs(0, 0)).toBe(0);
});

test("while queues with work are known, it searches for others now and then", () => {
  const search = new QueueSearch(["*"]);
  search.start();
  search.done(none, at(1_000));

  expect([search.inMs(1_000, 1), search.inMs(1_000 + recheckEmptyMs, 1)]).toEqual([recheckEmptyMs, 0]);
  // Those would only wait behind the ones that are in line.
  expect(search.inMs(1_000, maxQueuesPerClaim)).toBeGreaterThan(recheckEmptyMs);
});

test("full searches take at most a twentieth of the time", () => {
  const search = new QueueSearch(["*"]);
  search.start();
  search.done(none, { sentAt: 0, at: 1_000 });
  search.hint();

  expect(search.inMs(1_000, 0)).toBeGreaterThan(10_000);
});
