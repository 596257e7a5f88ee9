import { expect, test } from "vitest";
import { recheckEmptyMs, maxQueuesPerClaim, QueueTurns } from "./queue-turns.ts";

const names = (count: number): string[] => Array.from({ length: count }, (_, n) => `q${n}`);
const asked = (turns: QueueTurns, limit: number, at = 0): string[] =>
  turns.takes(limit, at).map(({ queue }) => queue);
const got = (counts: Record<string, number>): Map<string, number> => new Map(Object.entries(counts));

test("a queue that gave jobs is asked after the others, and an empty one not at all", () => {
  const turns = new QueueTurns(["a", "b", "c"]);
  expect(turns.claimed(turns.takes(2, 0), got({ a: 1, c: 1 }), 0)).toEqual(["a", "c"]);

  expect(asked(turns, 2)).toEqual(["a", "c"]);
});

test("queues that a full claim did not come to are asked first by the next", () => {
  const turns = new QueueTurns(names(4));
  expect(turns.claimed(turns.takes(1, 0), got({ q0: 1 }), 0)).toEqual(["q0"]);
  expect(asked(turns, 1)).toEqual(["q1", "q2", "q3", "q0"]);
  turns.claimed(turns.takes(1, 0), got({ q2: 1 }), 0);

  expect(asked(turns, 1)).toEqual(["q3", "q0", "q2"]);
});

test("every queue gets its turn, however many queues and few slots there are", () => {
  const turns = new QueueTurns(undefined);
  const all = names(3 * maxQueuesPerClaim);
  for (const queue of all) turns.hint(queue);
  const served = all.map(() => {
    const takes = turns.takes(1, 0);
    const queue = takes[0]?.queue ?? "";
    turns.claimed(takes, got({ [queue]: 1 }), 0);
    return queue;
  });

  expect(served).toEqual(all);
});

test("a claim asks at most 100 queues, and in total for no more than the pool's room", () => {
  const turns = new QueueTurns(undefined);
  for (const queue of names(2 * maxQueuesPerClaim)) turns.hint(queue);
  const takes = turns.takes(2 * maxQueuesPerClaim, 0);

  expect(takes).toHaveLength(maxQueuesPerClaim);
  expect(takes[0]).toEqual({ queue: "q0", limit: 2, pool: { limit: 2 * maxQueuesPerClaim } });
  turns.claimed(takes, got({}), 0);
  expect([turns.size, turns.isUnasked]).toEqual([maxQueuesPerClaim, true]);
  turns.claimed(turns.takes(2 * maxQueuesPerClaim, 0), got({}), 0);
  expect([turns.size, turns.isUnasked]).toEqual([0, false]);
});

test("a queue hinted at during the claim stays in line", () => {
  const turns = new QueueTurns(["a", "b"]);
  const takes = turns.takes(2, 0);
  turns.hint("b");
  turns.claimed(takes, got({}), 0);

  expect(asked(turns, 2)).toEqual(["b"]);
});

test("while a queue is busy, empty ones are asked again now and then, and first", () => {
  const turns = new QueueTurns(["a", "b", "c"]);
  turns.claimed(turns.takes(3, 0), got({ a: 1 }), 0);
  expect(turns.takes(4, recheckEmptyMs - 1)).toEqual([{ queue: "a", limit: 4 }]);
  const again = turns.takes(4, recheckEmptyMs);
  expect(again).toEqual(["b", "c", "a"].map((queue) => ({ queue, limit: 4, pool: { limit: 4 } })));
  turns.claimed(again, got({ b: 4 }), recheckEmptyMs);

  expect(asked(turns, 4, recheckEmptyMs)).toEqual(["c", "a", "b"]);
});

test("when no queue is busy, empty ones wait for a hint", () => {
  const turns = new QueueTurns(["a", "b"]);
  turns.claimed(turns.takes(2, 0), got({}), 0);
  expect([turns.size, asked(turns, 2, 10 * recheckEmptyMs)]).toEqual([0, []]);
  turns.hintAll();

  expect(asked(turns, 2)).toEqual(["a", "b"]);
});
