import { afterEach, expect, test, vi } from "vitest";
import { Output, paint } from "./output.ts";
import { cut, table, type Column } from "./table.ts";

type Row = { id: string; note: string; extra: string };

const columns: readonly Column<Row>[] = [
  { title: "ID", cell: (row) => row.id },
  { title: "NOTE", cell: (row) => row.note, most: 40 },
  { title: "EXTRA", cell: (row) => paint("red", row.extra), most: 40 },
];

/** The lines of a table on a terminal of this width. */
function printed(rows: readonly Row[], width?: number): string[] {
  let text = "";
  vi.spyOn(process.stdout, "write").mockImplementation((part) => {
    text += String(part);
    return true;
  });
  table(Object.assign(new Output({ color: false }), { width }), columns, rows);
  vi.restoreAllMocks();
  return text.trimEnd().split("\n");
}

afterEach(() => {
  vi.restoreAllMocks();
});

test("columns are aligned by what a terminal shows, not by the number of characters", () => {
  expect(
    printed([
      { id: "1", note: "日本", extra: "x" },
      { id: "22", note: "abcd", extra: "y" },
    ]),
  ).toEqual(["ID  NOTE  EXTRA", "1   日本  x", "22  abcd  y"]);
});

test("an empty column is left out", () => {
  expect(printed([{ id: "1", note: "", extra: "x" }])).toEqual(["ID  EXTRA", "1   x"]);
});

test("on a narrow terminal the last columns shrink first, and ids stay whole", () => {
  const rows = [{ id: "0123456789", note: "n".repeat(30), extra: "e".repeat(30) }];

  expect(printed(rows, 60)[1]).toBe(`0123456789  ${"n".repeat(30)}  ${"e".repeat(15)}…`);
  expect(printed(rows, 40)[1]).toBe(`0123456789  ${"n".repeat(15)}…`);
  expect(printed(rows, 8)[1]).toBe("0123456789");
});

test("a text is cut between characters, with a mark", () => {
  expect(cut("abcdef", 4)).toBe("abc…");
  expect(cut("abcd", 4)).toBe("abcd");
  expect(cut("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 5)).toBe("👩‍👩‍👧‍👦👩‍👩‍👧‍👦…");
});

test("a password is masked before the cell is cut, so that no part of it is left", () => {
  const [, row] = printed([{ id: "1", note: `postgres://app:hunter2${"x".repeat(40)}@db/app`, extra: "" }]);

  expect(row).toBe("1   postgres://app:***@db/app");
});
