import { expect, test } from "vitest";
import { Sweeps } from "./sweeps.ts";

/** Sweeps as often as allowed, each of its length. Returns the share of time spent sweeping. */
function sweepOn(lengths: readonly number[]): { spentMs: number; allMs: number } {
  const sweeps = new Sweeps();
  let at = 0;
  let spentMs = 0;
  for (const length of lengths) {
    at += sweeps.inMs(at);
    sweeps.done(at, at + length);
    at += length;
    spentMs += length;
  }
  return { spentMs, allMs: at + sweeps.inMs(at) };
}

test("the first sweep may run at once, and so may others while their total is short", () => {
  const sweeps = new Sweeps();
  expect(sweeps.inMs(0)).toBe(0);
  sweeps.done(0, 40);
  expect(sweeps.inMs(40)).toBe(0);
  sweeps.done(40, 80);
  expect(sweeps.inMs(80)).toBe(0);
});

test("after that each sweep is followed by twenty times its length without one", () => {
  const sweeps = new Sweeps();
  sweeps.done(0, 100);
  expect(sweeps.inMs(100)).toBe(0);
  sweeps.done(100, 110);

  // Ten were spent, half of one was earned meanwhile.
  expect(sweeps.inMs(110)).toBeCloseTo(190);
  expect(sweeps.inMs(200)).toBeCloseTo(100);
  expect(sweeps.inMs(301)).toBe(0);
});

test.each([
  ["of a third of a millisecond", [0.3]],
  ["of half a second", [500]],
  ["as slow as any may count", [1_000]],
  ["that are cheap and costly in turn", [1, 700]],
  ["of which one in ten is slow", [2, 2, 2, 2, 2, 2, 2, 2, 2, 300]],
])("sweeps %s take a twentieth of the time on average", (_, lengths) => {
  const { spentMs, allMs } = sweepOn(
    Array.from({ length: 20_000 }, (__, n) => lengths[n % lengths.length] ?? 0),
  );

  expect(spentMs).toBeLessThanOrEqual(0.05 * allMs + 100.001);
  expect(spentMs).toBeGreaterThan(0.04 * allMs);
});

test("a long time without sweeps allows no larger burst than the start", () => {
  const sweeps = new Sweeps();
  sweeps.done(0, 100);
  const late = 10_000_000;
  sweeps.done(late, late + 100);
  sweeps.done(late + 100, late + 200);

  expect(sweeps.inMs(late + 200)).toBeGreaterThan(1_000);
});

test("a sweep delayed for minutes postpones the next by at most 20 s", () => {
  const sweeps = new Sweeps();
  sweeps.done(0, 300_000);
  expect(sweeps.inMs(300_000)).toBeLessThanOrEqual(20_000);
  expect(sweeps.inMs(300_000)).toBeGreaterThan(0);
});

test("the clock may start at any value", () => {
  const sweeps = new Sweeps();
  const at = 1_800_000_000_000;
  expect(sweeps.inMs(at)).toBe(0);
  sweeps.done(at, at + 200);
  expect(sweeps.inMs(at + 200)).toBeCloseTo(2_000);
});

test("only what a sweep takes beyond the claim it replaced is spent", () => {
  const sweeps = new Sweeps();
  sweeps.done(0, 100);
  sweeps.done(100, 105, 5);
  expect(sweeps.inMs(105)).toBe(0);
  sweeps.done(105, 125, 5);
  expect(sweeps.inMs(125)).toBeGreaterThan(200);
  // A quicker one earns what it spared, and never more than was spent.
  sweeps.done(125, 126, 1_000);
  expect(sweeps.inMs(126)).toBe(0);
  sweeps.done(126, 336);
  expect(sweeps.inMs(336)).toBeGreaterThan(2_000);
});
