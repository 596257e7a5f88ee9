import { expect, test } from "vitest";
import { attemptNumbers } from "./attempt-number.ts";
import type { Attempt, AttemptOutcome } from "./job.ts";

const log = (...entries: readonly [epoch: number, outcome: AttemptOutcome][]): Attempt[] =>
  entries.map(([epoch, outcome]) => ({
    epoch,
    outcome,
    worker: "w",
    startedAt: new Date(epoch * 1_000),
    endedAt: new Date(epoch * 1_000 + 500),
  }));

test("a released claim has the attempt number of the next one, at any epoch", () => {
  const job = { log: log([1, "crashed"], [3, "failed"]), attempts: 2, state: "running" } as const;
  expect(attemptNumbers(job, [])).toEqual({ 1: 1, 3: 1 });
  const long = log([1, "failed"], [2, "released"], [3, "snoozed"], [4, "timed-out"], [5, "succeeded"]);
  expect(attemptNumbers({ log: long, attempts: 3, state: "succeeded" }, [])).toEqual({
    1: 1,
    2: 2,
    3: 2,
    4: 2,
    5: 3,
  });
});

test("a replay begins at 1 again", () => {
  const runs = log([1, "failed"], [2, "failed"], [3, "crashed"], [4, "failed"], [5, "failed"]);
  const numbers = { 1: 1, 2: 2, 3: 1, 4: 1, 5: 1 };
  expect(
    attemptNumbers({ log: runs, attempts: 1, state: "dead" }, [new Date(2_800), new Date(4_800)]),
  ).toEqual(numbers);
  // Before anything ran again.
  expect(attemptNumbers({ log: log([1, "failed"]), attempts: 0, state: "ready" }, [new Date(2_000)])).toEqual(
    { 1: 1 },
  );
});

test("the latest entries keep their numbers when the first ones are dropped", () => {
  const job = { log: log([30, "failed"], [31, "failed"]), attempts: 31, state: "retrying" } as const;
  expect(attemptNumbers(job, [])).toEqual({ 30: 30, 31: 31 });
});

test("a replay missing from the audit does not number attempts below 1", () => {
  const job = { log: log([1, "failed"], [2, "failed"], [3, "failed"]), attempts: 1, state: "dead" } as const;
  expect(attemptNumbers(job, [])).toEqual({ 1: 1, 2: 2, 3: 1 });
});
