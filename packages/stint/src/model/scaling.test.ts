import { expect, test } from "vitest";
import { limitedBy, resolveScaling, workersFor, type PoolState } from "./scaling.ts";

const pool = (slotsNeeded: number, workers: number, depth = 0) => ({
  slotsNeeded,
  slots: 10,
  workers,
  depth,
});

test("workers are added for the demand, and removed only well below it", () => {
  expect(workersFor(pool(31, 3), [])).toEqual({ needed: 4, recommended: 4 });
  // Three workers are enough, but would be over 80 % busy.
  expect(workersFor(pool(29, 4), [])).toEqual({ needed: 3, recommended: 4 });
  expect(workersFor(pool(24, 4), [])).toEqual({ needed: 3, recommended: 3 });
  expect(workersFor(pool(0, 4), [])).toEqual({ needed: 0, recommended: 0 });
});

test("a load around the edge of a worker never flaps between two numbers", () => {
  let workers = 3;
  const seen = new Set<number>();
  for (let n = 0; n < 100; n++) {
    workers = workersFor(pool(n % 2 === 0 ? 29.5 : 30.5, workers), []).recommended;
    seen.add(workers);
  }
  expect([...seen]).toEqual([3, 4]);
  expect(workers).toBe(4);
});

test("a rule adds workers above its depth until the depth is below the other", () => {
  const rules = [{ depthAbove: 500, depthBelow: 50, add: 2 }];
  const at = (depth: number, workers: number): number =>
    workersFor(pool(8, workers, depth), rules).recommended;
  expect(at(500, 1)).toBe(1);
  expect(at(501, 1)).toBe(3);
  expect(at(200, 3)).toBe(3);
  expect(at(50, 3)).toBe(3);
  expect(at(49, 3)).toBe(1);
  expect(at(200, 1)).toBe(1);
});

const state: PoolState = {
  needed: 1,
  workers: 2,
  utilisation: 0.5,
  oldestReadyMs: 1_000,
  targetMs: 60_000,
  pause: null,
  limit: null,
  loops: { known: 2, busy: 0 },
  database: { connections: 10, maxConnections: 100, lockWaits: 0 },
};
const late = { oldestReadyMs: 120_000 };
const full = { database: { ...state.database, connections: 95 } };
const locked = { database: { ...state.database, lockWaits: 2 } };
const busyLoops = { loops: { known: 3, busy: 2 } };

test.each<[string, Partial<PoolState>]>([
  ["none", {}],
  ["none", full],
  ["workers", { needed: 3 }],
  ["workers", { needed: 1, workers: 0, utilisation: null }],
  ["pause", { pause: { name: "queue:mail", slots: 3 } }],
  ["limit", { limit: { name: "kind:mail", slots: 3, waiting: 0 }, pause: { name: "queue:x", slots: 1 } }],
  ["dependency", { limit: { name: "dependency:openai", slots: 3, waiting: 7 } }],
  ["workers", { needed: 3, limit: { name: "kind:mail", slots: 3, waiting: 1 } }],
  ["database-connections", { needed: 3, ...full }],
  ["database-connections", { ...late, ...full }],
  ["lock-waits", { needed: 3, ...locked }],
  ["handler-cpu", { ...late, ...busyLoops }],
  ["unknown", late],
  ["unknown", { ...late, utilisation: null }],
])("the limiting factor is %s, by facts only", (factor, facts) => {
  expect(limitedBy({ ...state, ...facts }).factor).toBe(factor);
});

test("a full limit and a saturated dependency are named", () => {
  const text = (name: string): string =>
    limitedBy({ ...state, limit: { name, slots: 1, waiting: 1_234 } }).text;
  expect(text("key:account")).toBe(
    "The limit key:account is full; 1,234 jobs wait for it: more workers will not help",
  );
  expect(text("dependency:openai")).toBe(
    "Dependency openai is saturated; 1,234 jobs wait for it: more workers will not help",
  );
});

test.each<[string, object]>([
  ["t.min", { min: -1 }],
  ["t.min", { min: Number.NaN }],
  ["t.max", { max: 0 }],
  ["t.max", { min: 5, max: 4 }],
  ["t.rules", { rules: {} }],
  ["t.rules[0]", { rules: [null] }],
  ["t.rules[0].add", { rules: [{ depthAbove: 5, depthBelow: 1, add: 0 }] }],
  ["t.rules[0].depthBelow", { rules: [{ depthAbove: 5, depthBelow: 6, add: 1 }] }],
  ["t.rules[0].depthAbove", { rules: [{ depthAbove: Infinity, depthBelow: 6, add: 1 }] }],
  ["depthAbov", { rules: [{ depthAbov: 5, depthBelow: 1, add: 1 }] }],
])("%s is refused if it cannot work", (option, given) => {
  expect(() => resolveScaling("t", given as never)).toThrow(option);
});
