import type { TransactionClient } from "./client.ts";
import { isInTransaction, isPgPool, requireBegun } from "./pg.ts";
import { ended, has, notTransaction, read } from "./shape.ts";

type Drizzle = { execute(query: object): PromiseLike<unknown> };

/** The `tx` of Drizzle's `db.transaction`, or a Drizzle database on a pg client after BEGIN. */
export function drizzle(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "execute") || read(tx, "dialect") === undefined) return undefined;
  const database = read(tx, "$client");
  if (isPgPool(database) || has(database, "begin"))
    throw notTransaction("the Drizzle database", "the tx of db.transaction(async (tx) => …)");
  const client = database ?? read(read(tx, "session"), "client");
  return {
    // Drizzle reads the SQL object of a query, and the text and parameters of that object. These two methods suffice, so
    // drizzle-orm need not be imported.
    query: (text, values) =>
      (tx as Drizzle).execute({ getSQL: () => ({ toQuery: () => ({ sql: text, params: values }) }) }),
    requireOpen() {
      requireBegun(client);
      if (database === undefined) requireSameLoan(tx as object, client);
    },
    isCertain: () => isInTransaction(client),
    ...(database === undefined ? { identity: tx as object } : {}),
  };
}

/** pg's pool sets a new `release` on a client at every checkout. */
const loans = new WeakMap<object, unknown>();

/** A `tx` used after its end must not write in the next transaction on its connection. */
function requireSameLoan(tx: object, client: unknown): void {
  const loan = read(client, "release");
  if (!loans.has(tx)) loans.set(tx, loan);
  else if (loans.get(tx) !== loan) throw ended("Drizzle");
}
