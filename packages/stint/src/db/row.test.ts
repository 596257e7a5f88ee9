import { expect, test } from "vitest";
import type { Row, Run } from "./db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  texts,
  time,
} from "./row.ts";
import { statement } from "./statement.ts";

const select = statement("select-things", "select");
const returning = (...rows: Row[]): Run => ({ run: async () => rows });

test("each reader returns the value of its type", () => {
  const at = new Date();
  const row = { a: "x", b: 1, c: "12", d: true, e: at, f: { g: 1 }, h: ["i"], j: null };

  expect(text(row, "a")).toBe("x");
  expect(number(row, "b")).toBe(1);
  expect(number(row, "c")).toBe(12);
  expect(flag(row, "d")).toBe(true);
  expect(time(row, "e")).toBe(at);
  expect(json(row, "f")).toEqual({ g: 1 });
  expect(texts(row, "h")).toEqual(["i"]);
  expect(textOrNull(row, "j")).toBeNull();
  expect(numberOrNull(row, "b")).toBe(1);
  expect(oneOf(["x", "y"])(row, "a")).toBe("x");
});

test.each<[string, (row: Row, column: string) => unknown, unknown, string]>([
  ["text", text, 5, 'column "c" is number, expected text'],
  ["text that is null", text, null, 'column "c" is null, expected text'],
  ["a missing column", textOrNull, undefined, 'column "c" is missing, expected text'],
  ["a number", number, "many", 'column "c" is string, expected a number'],
  ["an empty text for a number", number, "", 'column "c" is string, expected a number'],
  ["a boolean", flag, "t", 'column "c" is string, expected a boolean'],
  ["a time", time, "2026-01-01", 'column "c" is string, expected a time'],
  ["JSON", json, "{}", 'column "c" is string, expected JSON or an array'],
  ["an array of text", texts, ["a", null], 'column "c" is object, expected an array of text'],
  ["one of a list", oneOf(["a", "b"]), "z", 'column "c" is string, expected one of a, b'],
])("a wrong value for %s is refused by column", (_, read, value, message) => {
  expect(() => read({ c: value }, "c")).toThrow(message);
});

test("a wrong column is reported with the name of its statement", async () => {
  const read = columns<{ kind: string; jobs: number }>({ kind: text, jobs: number });

  await expect(readMany(returning({ kind: "a", jobs: "3" }), select, [], read)).resolves.toEqual([
    { kind: "a", jobs: 3 },
  ]);
  await expect(readMany(returning({ kind: "a", jobs: null }), select, [], read)).rejects.toThrow(
    'Statement "select-things": column "jobs" is null, expected a number.',
  );
});

test("readOne requires a row, readMaybe does not", async () => {
  const kind = (row: Row): string => text(row, "kind");

  await expect(readOne(returning({ kind: "a" }), select, [], kind)).resolves.toBe("a");
  await expect(readMaybe(returning(), select, [], kind)).resolves.toBeUndefined();
  await expect(readOne(returning(), select, [], kind)).rejects.toThrow(
    'Statement "select-things" returned no row, expected one.',
  );
});
