import { expect, test } from "vitest";
import { contains, sorted } from "../ui/components/rows-order.ts";

test("rows are sorted by number or name, with missing values last either way", () => {
  const rows = [{ n: 2 }, { n: null }, { n: 10 }, { n: 1 }];
  expect(sorted(rows, ({ n }) => n, false).map(({ n }) => n)).toEqual([1, 2, 10, null]);
  expect(sorted(rows, ({ n }) => n, true).map(({ n }) => n)).toEqual([10, 2, 1, null]);
  expect(sorted(["b", "A", "c"], (name) => name, false)).toEqual(["A", "b", "c"]);
  expect(rows[0]).toEqual({ n: 2 });
});

test("a filter is case-insensitive, and keeps all rows without text", () => {
  expect([contains("Mail", " ma "), contains("mail", "x"), contains(undefined, "x")]).toEqual([
    true,
    false,
    true,
  ]);
});
