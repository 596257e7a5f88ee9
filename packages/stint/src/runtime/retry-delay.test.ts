import { expect, test } from "vitest";
import { RetryDelay } from "./retry-delay.ts";

const take = (retryDelay: RetryDelay, count: number) =>
  Array.from({ length: count }, () => retryDelay.next());

test("delays double from 100 ms and stay at 5 s", () => {
  expect(take(new RetryDelay(() => 1), 8)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
});

test("jitter takes away at most half, so no delay is zero", () => {
  expect(take(new RetryDelay(() => 0), 7)).toEqual([50, 100, 200, 400, 800, 1_600, 2_500]);
});

test("after a success the first delay is short again", () => {
  const retryDelay = new RetryDelay(() => 1);
  take(retryDelay, 5);
  retryDelay.reset();
  expect(retryDelay.next()).toBe(100);
});

test("an outage of any length gives finite delays", () => {
  const retryDelay = new RetryDelay(() => 0.5);
  expect(take(retryDelay, 5_000).at(-1)).toBe(3_750);
});

test("base and cap can be chosen", () => {
  expect(take(new RetryDelay(() => 1, { baseMs: 10, capMs: 30 }), 3)).toEqual([10, 20, 30]);
});
