import { randomFillSync } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { idSource, newId } from "./new-id.ts";
import { isUuid } from "./uuid.ts";

const timeOf = (id: string) => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

test("a hundred thousand ids in a row are distinct UUIDs in order", () => {
  const ids = Array.from({ length: 100_000 }, () => newId());

  expect(ids.every((id) => isUuid(id))).toBe(true);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.toSorted()).toEqual(ids);
});

test("each id sorts after the one before, whatever the clock does", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 2 }), (clock) => {
      let tick = 0;
      const next = idSource(() => clock[tick++] ?? 0, randomFillSync);
      const ids = clock.map(() => next());
      expect(ids.toSorted()).toEqual(ids);
      expect(new Set(ids).size).toBe(ids.length);
    }),
  );
});

test("a clock set back keeps the last millisecond", () => {
  const clock = [1_000, 400];
  const next = idSource(() => clock.shift() ?? 0, randomFillSync);
  expect([next(), next()].map(timeOf)).toEqual([1_000, 1_000]);
});

test("when the counter is full the time runs ahead by a millisecond", () => {
  const next = idSource(
    () => 1_000,
    (bytes) => bytes.fill(0xff),
  );
  const ids = Array.from({ length: 2_050 }, () => next());

  // The counter starts at 0x7ff, so 2049 ids fit.
  expect(ids.slice(0, 2_049).every((id) => timeOf(id) === 1_000)).toBe(true);
  expect(timeOf(ids.at(2_049) ?? "")).toBe(1_001);
  expect(ids.toSorted()).toEqual(ids);
});
