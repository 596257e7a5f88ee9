import type { Row, Run, RunOptions } from "./db.ts";
import type { Statement } from "./statement.ts";

/** Reads one column of a row, or throws an error that names the column. */
export type ColumnReader<T> = (row: Row, column: string) => T;

/** A column that is missing or of another type than the code expects. */
class WrongColumn extends Error {
  constructor(row: Row, column: string, expected: string) {
    const value = row[column];
    const found = value === undefined ? "is missing" : `is ${value === null ? "null" : typeof value}`;
    super(`column "${column}" ${found}, expected ${expected}`);
  }
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw new WrongColumn(row, column, "text");
}

/** Any numeric type. The driver returns `bigint` and `numeric` as text. */
export function number(row: Row, column: string): number {
  const value = row[column];
  if (typeof value === "number") return value;
  if (typeof value === "string" && value !== "" && !Number.isNaN(Number(value))) return Number(value);
  throw new WrongColumn(row, column, "a number");
}

export function flag(row: Row, column: string): boolean {
  const value = row[column];
  if (typeof value === "boolean") return value;
  throw new WrongColumn(row, column, "a boolean");
}

export function time(row: Row, column: string): Date {
  const value = row[column];
  if (value instanceof Date) return value;
  throw new WrongColumn(row, column, "a time");
}

/** JSON or an array. The statement or the table's checks guarantee the shape; only its presence is checked here. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the one place where a shape is taken on trust
export function json<T>(row: Row, column: string): T {
  const value = row[column];
  if (typeof value === "object" && value !== null) return value as T;
  throw new WrongColumn(row, column, "JSON or an array");
}

export function texts(row: Row, column: string): string[] {
  const value = row[column];
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw new WrongColumn(row, column, "an array of text");
}

export function oneOf<const T extends string>(values: readonly T[]): ColumnReader<T> {
  return (row, column) => {
    const value = row[column];
    const known = values.find((one) => one === value);
    if (known !== undefined) return known;
    throw new WrongColumn(row, column, `one of ${values.join(", ")}`);
  };
}

/** The same column where it may be null. A column that the statement does not return is still an error. */
export function orNull<T>(read: ColumnReader<T>): ColumnReader<T | null> {
  return (row, column) => (row[column] === null ? null : read(row, column));
}

export const textOrNull = orNull(text);
export const numberOrNull = orNull(number);
export const timeOrNull = orNull(time);

/** A reader of whole rows whose columns are named like the properties of `T`. */
export function columns<T>(readers: { readonly [Name in keyof T]: ColumnReader<T[Name]> }): (row: Row) => T {
  const entries = Object.entries(readers) as [string, ColumnReader<unknown>][];
  return (row) => {
    const read: Row = {};
    for (const [column, reader] of entries) read[column] = reader(row, column);
    return read as T;
  };
}

/** Types a row without checking it: for the claim only, whose mapping is on the hot path. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- a cast, in the one place where casts are allowed
export function unchecked<T>(row: Row): T {
  return row as T;
}

/** Run a statement and read each of its rows. */
export async function readMany<T>(
  db: Run,
  statement: Statement,
  values: readonly unknown[],
  read: (row: Row) => T,
  options?: RunOptions,
): Promise<T[]> {
  return readRows(statement, await db.run(statement, values, options), read);
}

/** Run a statement and read its first row; undefined when it returns none. */
export async function readMaybe<T>(
  db: Run,
  statement: Statement,
  values: readonly unknown[],
  read: (row: Row) => T,
  options?: RunOptions,
): Promise<T | undefined> {
  const rows = await db.run(statement, values, options);
  return readRows(statement, rows.slice(0, 1), read)[0];
}

/** Run a statement that always returns a row, and read it. */
export async function readOne<T>(
  db: Run,
  statement: Statement,
  values: readonly unknown[],
  read: (row: Row) => T,
  options?: RunOptions,
): Promise<T> {
  const rows = await db.run(statement, values, options);
  if (rows.length === 0) throw new Error(`Statement "${statement.name}" returned no row, expected one.`);
  return readRows(statement, rows.slice(0, 1), read)[0] as T;
}

/** Read rows that a statement has returned. */
export function readRows<T>(statement: Statement, rows: readonly Row[], read: (row: Row) => T): T[] {
  try {
    return rows.map((row) => read(row));
  } catch (error) {
    if (!(error instanceof WrongColumn)) throw error;
    throw new Error(`Statement "${statement.name}": ${error.message}.`, { cause: error });
  }
}
