import type { Row } from "../db/db.ts";
import { statement, type Statement } from "../db/statement.ts";

// Statements for the caller's transaction. A statement that arrives after its end would run in no transaction, or in the next one of that
// connection. It must write nothing there.

/**
 * Marks the transaction it runs in, until that transaction ends, and returns its id. Outside a transaction the mark is
 * gone at once.
 */
export const noteTransaction = statement(
  "note-transaction",
  `
  select set_config('stint_transaction.xid', pg_current_xact_id()::text, true) as xid`,
);

// No subtransaction of the caller's changes what `pg_current_xact_id` returns: savepoints are the same transaction.
export const isInside = (xid: string): string =>
  `pg_current_xact_id_if_assigned()::text = coalesce(${xid}::text, current_setting('stint_transaction.xid', true))`;

/** A statement that does nothing outside its transaction. `read` returns undefined then. */
export type InsideStatement<T> = {
  readonly statement: Statement;
  readonly values: readonly unknown[];
  readonly read: (rows: readonly Row[]) => T | undefined;
};

/** The text of a call that is made only within the transaction `xid`. `readInside` reads its result. */
export const calledInside = (call: string, xid: string): string => `
  select case when here.inside then ${call} end as result, here.inside
  from (select ${isInside(xid)} as inside) here`;

/** The result of the call, which may be null; undefined outside the transaction. */
export function readInside(rows: readonly Row[]): { readonly result: unknown } | undefined {
  const [row] = rows;
  return row?.["inside"] === true ? { result: row["result"] ?? null } : undefined;
}

const currentTransaction = statement("current-transaction", calledInside(`pg_current_xact_id()::text`, "$1"));

/** The id of the transaction it runs in. */
export function transactionIdInside(xid: string | undefined): InsideStatement<string> {
  return {
    statement: currentTransaction,
    values: [xid ?? null],
    read: (rows) => readInside(rows)?.result as string | undefined,
  };
}
