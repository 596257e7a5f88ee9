import { expect, test } from "vitest";
import { isTooEarly, isTooLate, ServerClock, toTimestamp } from "./server-clock.ts";

function refusal(code: string, detail?: string): Error {
  return Object.assign(new Error("refused"), { code, detail });
}

test("the server's time continues with the local clock", () => {
  let localMs = 1_000;
  const clock = new ServerClock(() => localMs, 5_000);
  expect(clock.nowMs()).toBe(5_000);
  clock.learn(90_000, localMs);
  localMs += 250;
  expect(clock.nowMs()).toBe(90_250);
});

test("a result that is read late does not set the estimate back", () => {
  let localMs = 0;
  const clock = new ServerClock(() => localMs, 1_000_000);
  clock.learn(5_000, localMs);
  const sentMs = localMs;
  localMs += 10_000;
  clock.learn(5_001, sentMs);
  expect(clock.nowMs()).toBe(15_000);
  // The clock of the database was set: no time between the send and now agrees with the estimate.
  clock.learn(90_000, localMs - 2);
  expect(clock.nowMs()).toBe(90_000);
  clock.learn(20_000, localMs - 2);
  expect(clock.nowMs()).toBe(20_000);
});

test("a refusal sets the time; another error or an unreadable time does not", () => {
  const clock = new ServerClock(() => 0, 0);
  clock.learnFrom(refusal("23505", toTimestamp(7_000)), 0);
  clock.learnFrom(refusal("ST001"), 0);
  clock.learnFrom(refusal("ST001", "later"), 0);
  clock.learnFrom(undefined, 0);
  expect(clock.nowMs()).toBe(0);
  clock.learnFrom(refusal("ST001", toTimestamp(7_000)), 0);
  expect(clock.nowMs()).toBe(7_000);
  clock.learnFrom(refusal("ST002", toTimestamp(3_000)), 0);
  expect(clock.nowMs()).toBe(3_000);
});

test("a deadline grows with each refusal, up to a limit", () => {
  const clock = new ServerClock(() => 0, 100);
  expect([0, 1, 2, 3, 30].map((refusals) => clock.deadline(refusals))).toEqual([
    3_100, 6_100, 12_100, 15_100, 15_100,
  ]);
});

test("too late and too early are distinguished", () => {
  expect([isTooLate(refusal("ST001")), isTooEarly(refusal("ST001"))]).toEqual([true, false]);
  expect([isTooLate(refusal("ST002")), isTooEarly(refusal("ST002"))]).toEqual([false, true]);
});
