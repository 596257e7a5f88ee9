import { expect, test } from "vitest";
import { Prefetch } from "./prefetch.ts";

/** Ends so many handlers, each of this length, between two claims `ms` apart. */
function run(
  prefetch: Prefetch,
  count: number,
  { took = 0.01, from = 0, ms = 100, weight = 4, roundTrip = 1 } = {},
): void {
  prefetch.measure(from, 0, roundTrip);
  for (let n = 0; n < count; n++) prefetch.ended(took);
  prefetch.measure(from + ms, weight, roundTrip);
}

test("a pool that has ended nothing prefetches nothing", () => {
  const prefetch = new Prefetch(10);
  expect(prefetch.ahead).toBe(0);
  prefetch.measure(0, 4, 1);
  prefetch.measure(1_000, 4, 1);
  expect(prefetch.ahead).toBe(0);
});

test("it prefetches what it ends in fifty milliseconds", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 100);

  expect(prefetch.ahead).toBe(50);
});

test("with long round trips it prefetches four of them, up to 250 ms", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 100, { roundTrip: 30 });
  expect(prefetch.ahead).toBe(120);
  run(prefetch, 100, { from: 200, roundTrip: 5_000 });
  expect(prefetch.ahead).toBe(250);
});

test("once round trips are short again, the prefetch halves at every claim", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 100, { roundTrip: 50 });
  run(prefetch, 50, { from: 100, ms: 50 });
  expect(prefetch.ahead).toBe(50);
});

test("a pool whose slots wait for claims prefetches more, not less", () => {
  const prefetch = new Prefetch(10);
  let claimed = 20;
  for (let n = 0; n < 12; n++) {
    // Each claim takes forty milliseconds and is used up before the next returns.
    run(prefetch, claimed, { from: n * 80, ms: 40, roundTrip: 40 });
    claimed = Math.max(1, Math.floor(prefetch.ahead / 2));
  }
  expect(claimed).toBe(1_000);
});

test("a pool of long jobs prefetches none, however close together they end", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 9, { took: 1_000, ms: 2 });

  expect(prefetch.ahead).toBe(0);
});

test("short jobs are prefetched as far as the slots can run them in that time", () => {
  const prefetch = new Prefetch(4);
  run(prefetch, 1_000, { took: 10, ms: 1 });

  expect(prefetch.ahead).toBe(20);
});

test("one long job counts at once, and short ones little by little", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 1_000);
  prefetch.ended(80);
  expect(prefetch.ahead).toBe(0);
  for (let n = 0; n < 5; n++) prefetch.ended(0.01);
  expect(prefetch.ahead).toBe(0);
  for (let n = 0; n < 100; n++) prefetch.ended(0.01);
  expect(prefetch.ahead).toBeGreaterThan(100);
});

test("the rate rises at once, and falls by half at every claim", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 100);
  run(prefetch, 1_600, { from: 200 });
  expect(prefetch.ahead).toBe(800);
  prefetch.measure(400, 4, 1);
  expect(prefetch.ahead).toBe(400);
  prefetch.measure(500, 4, 1);
  expect(prefetch.ahead).toBe(200);
});

test("it never prefetches more than two thousand jobs", () => {
  const prefetch = new Prefetch(100);
  run(prefetch, 100_000);

  expect(prefetch.ahead).toBe(2_000);
});

test("large payloads are prefetched up to four megabytes, and remembered", () => {
  const prefetch = new Prefetch(100);
  run(prefetch, 100_000, { weight: 1_048_576 });
  expect(prefetch.ahead).toBe(4);
  run(prefetch, 100_000, { from: 200 });
  expect(prefetch.ahead).toBeLessThanOrEqual(32);
  run(prefetch, 100_000, { from: 400, weight: 16_777_216 });
  expect(prefetch.ahead).toBe(0);
});

test("after a reset it prefetches nothing until it has been measured anew", () => {
  const prefetch = new Prefetch(10);
  run(prefetch, 1_000);
  prefetch.ended(0.01);
  prefetch.reset();
  expect(prefetch.ahead).toBe(0);
  prefetch.measure(200, 4, 1);
  expect(prefetch.ahead).toBe(0);
  run(prefetch, 100, { from: 300 });
  expect(prefetch.ahead).toBe(50);
});

test("two claims in the same moment do not make the rate infinite", () => {
  const prefetch = new Prefetch(1);
  prefetch.measure(5, 4, 1);
  prefetch.ended(0);
  prefetch.measure(5, 4, 1);

  expect(prefetch.ahead).toBeLessThanOrEqual(1_000);
});
