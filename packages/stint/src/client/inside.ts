import { EndedTransactionError } from "../db/transactions/shape.ts";
import type { UserTransaction } from "../db/transactions/user-transaction.ts";
import { noteTransaction, type InsideStatement } from "../sql/inside.ts";
import { explainError } from "./explain-error.ts";

/**
 * Run a statement in the caller's transaction, or not at all. It is sent before this function returns, so that a COMMIT sent next comes
 * after it. `what` names it in the error.
 *
 * @throws {InvalidOptionError} No transaction is open.
 */
export async function runInside<T>(
  tx: UserTransaction,
  schema: string,
  what: string,
  at: (xid: string | undefined) => InsideStatement<T>,
): Promise<T> {
  try {
    tx.requireOpen();
    const first = at(undefined);
    const [noted, sent] = tx.runAll([{ statement: noteTransaction, values: [] }, first]);
    const [rows, xids] = await Promise.all([sent, noted]);
    const done = first.read(rows ?? []);
    if (done !== undefined) return done;
    // A client that reorders statements may have sent the mark last.
    return await runLater(tx, schema, what, at(String(xids?.[0]?.["xid"])));
  } catch (error) {
    throw explainError(error, schema);
  }
}

/** Run a statement that names its transaction by id: in that transaction, or not at all. */
export async function runLater<T>(
  tx: UserTransaction,
  schema: string,
  what: string,
  { statement, values, read }: InsideStatement<T>,
): Promise<T> {
  try {
    const done = read(await tx.run(statement, values));
    if (done !== undefined) return done;
  } catch (error) {
    throw explainError(error, schema);
  }
  throw new EndedTransactionError(
    `no transaction was open, or it had ended, when ${what} reached the database`,
  );
}
