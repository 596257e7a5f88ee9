import { expect, test } from "vitest";
import { leaseAdvice } from "./lease-advice.ts";

test.each<[string, number | null, number | null]>([
  ["no lease is known", null, 1_000],
  ["too few have ended", 30_000, null],
  ["runs are shorter than the lease", 30_000, 5_000],
  ["a short lease for quick runs", 30_000, 5],
  ["a long lease for long runs", 600_000, 100_000],
])("gives no advice where %s", (_, leaseMs, p99) => {
  expect(leaseAdvice(leaseMs, p99)).toBeNull();
});

test("advises a longer lease where runs outlive it", () => {
  expect(leaseAdvice(30_000, 80_000)).toBe(
    "1 of 100 runs takes longer than 1 min 20 s and lives on renewals of a lease of 30 s: " +
      "a worker cut off for that long loses them. A lease of 2 min would outlast most.",
  );
});

test("advises a shorter lease where a long one only delays rescues", () => {
  expect(leaseAdvice(600_000, 1_000)).toBe(
    "99 of 100 runs are over in 1 s, but the jobs of a worker that died wait for 10 min. A lease of 30 s would do.",
  );
});
