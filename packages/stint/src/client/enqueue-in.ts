import type { Row } from "../db/db.ts";
import type { UserTransaction } from "../db/transactions/user-transaction.ts";
import { EndedTransactionError } from "../db/transactions/shape.ts";
import { codeOf } from "../db/sqlstate.ts";
import { isThenable } from "../model/standard-schema.ts";
import {
  enqueueStatement,
  enqueueStatementInside,
  type EncodedRow,
  type EnqueuedRow,
  type Notify,
} from "../sql/enqueue.ts";
import { noteTransaction } from "../sql/inside.ts";
import { driverError, explainError } from "./explain-error.ts";
import { inStatements } from "./batches.ts";

type Send = (rows: readonly EncodedRow[]) => Promise<EnqueuedRow[]>;

/** Calls `send` within a trace, at once or later. */
export type Traced = (rows: readonly EncodedRow[], send: Send) => Promise<EnqueuedRow[]>;

export type EnqueueInOptions = {
  notify: Notify;
  schema: string;
  traced: Traced;
};

/**
 * Enqueue in the user's transaction. The statement is sent once, and the caller gets the database's error unchanged.
 *
 * Everything is sent before this function returns, so a COMMIT or ROLLBACK that the caller sends next arrives later. Rows that
 * are not ready (an asynchronous schema or telemetry) first read the id of their transaction, and later write in that
 * transaction or not at all.
 */
export function enqueueIn(
  tx: UserTransaction,
  rows: EncodedRow[] | Promise<EncodedRow[]>,
  { notify, schema, traced }: EnqueueInOptions,
): Promise<EnqueuedRow[]> {
  let sent = false;
  let later: Promise<string> | undefined;
  const send: Send = async (all) => {
    sent = true;
    try {
      return later === undefined ? await sendNow(tx, all, notify) : await sendLate(tx, all, notify, later);
    } catch (error) {
      if (error instanceof Error && !isFromDatabase(error)) undelivered.add(error);
      throw error;
    }
  };
  const work = async (): Promise<EnqueuedRow[]> => {
    try {
      tx.requireOpen();
      const ready = isThenable(rows) ? await rows : rows;
      return ready.length === 0 ? [] : await traced(ready, send);
    } catch (error) {
      sent = true;
      throw explainError(error, schema);
    }
  };
  const results = work();
  if (!sent) later = idOf(tx);
  return results;
}

/** Errors of clients that could not send: the transaction has ended, or its connection is lost and it cannot commit. */
const undelivered = new WeakSet<Error>();

/** Transaction ids, by the object that identifies each transaction. */
const known = new WeakMap<object, string>();

async function sendNow(
  tx: UserTransaction,
  rows: readonly EncodedRow[],
  notify: Notify,
): Promise<EnqueuedRow[]> {
  const { batches, inGivenOrder } = inStatements(rows);
  if (tx.isCertain()) {
    const statements = batches.map((batch) => enqueueStatement(batch, notify));
    const results = await Promise.all(tx.runAll(statements));
    return inGivenOrder(statements.map(({ read }, index) => read(results[index] ?? [])));
  }
  const id = tx.identity === undefined ? undefined : known.get(tx.identity);
  if (id !== undefined) return await sendInside(tx, rows, notify, id);

  const statements = batches.map((batch) => enqueueStatementInside(batch, notify, undefined));
  const [noted, ...sent] = tx.runAll([{ statement: noteTransaction, values: [] }, ...statements]);
  const results = await Promise.all([...sent, noted]);
  const xid = xidOf(results.pop());
  const written = statements.map(({ read }, index) => read(results[index] ?? []));
  if (written.every((one) => one !== undefined)) {
    if (tx.identity !== undefined) known.set(tx.identity, xid);
    return inGivenOrder(written);
  }
  // A client that reorders statements may have sent the mark last, or a savepoint rollback undid the mark.
  const missing = batches.filter((_, index) => written[index] === undefined);
  const repeated = await Promise.all(missing.map((batch) => sendInside(tx, batch, notify, xid)));
  return inGivenOrder(written.map((one) => one ?? repeated.shift() ?? []));
}

/** A client that can no longer send throws its own error: its transaction or its connection was closed. */
async function sendLate(
  tx: UserTransaction,
  rows: readonly EncodedRow[],
  notify: Notify,
  id: Promise<string>,
): Promise<EnqueuedRow[]> {
  try {
    return await sendInside(tx, rows, notify, await id);
  } catch (error) {
    if (error instanceof EndedTransactionError || isFromDatabase(error)) throw error;
    throw new EndedTransactionError(`the client could not send ${jobsOf(rows)} any more`, { cause: error });
  }
}

function isFromDatabase(error: unknown): boolean {
  return /^[0-9A-Z]{5}$/.test(codeOf(driverError(error)) ?? "");
}

function jobsOf(rows: readonly EncodedRow[]): string {
  return `job ${rows[0]?.row.id}${rows.length > 1 ? ` and ${rows.length - 1} more` : ""}`;
}

/** Write in the transaction `xid`, or not at all. */
async function sendInside(
  tx: UserTransaction,
  rows: readonly EncodedRow[],
  notify: Notify,
  xid: string,
): Promise<EnqueuedRow[]> {
  const { batches, inGivenOrder } = inStatements(rows);
  const statements = batches.map((batch) => enqueueStatementInside(batch, notify, xid));
  const results = await Promise.all(tx.runAll(statements));
  const written = statements.map(({ read }, index) => read(results[index] ?? []));
  if (written.every((one) => one !== undefined)) return inGivenOrder(written);
  throw new EndedTransactionError(
    `no transaction was open, or it had ended, when ${jobsOf(rows)} reached the database`,
  );
}

function idOf(tx: UserTransaction): Promise<string> {
  const id = tx.identity === undefined ? undefined : known.get(tx.identity);
  const asked = id === undefined ? tx.run(noteTransaction, []).then(xidOf) : Promise.resolve(id);
  // Lazy: rows that fail their schema never need it.
  asked.catch(() => undefined);
  return asked;
}

function xidOf(rows: readonly Row[] | undefined): string {
  return String(rows?.[0]?.["xid"]);
}

/** The transaction has already failed and can only be rolled back. */
const failedTransaction = "25P02";

/**
 * The same promise, except that a refusal after the end of the transaction causes no unhandled rejection. A caller that does
 * not await an enqueue usually rolled back, and its process must not end for that. `onRefused` reports the refusal.
 */
export function refusedQuietly<T>(work: Promise<T>, onRefused: (error: Error) => void): Promise<T> {
  const result = new Promise<T>((resolve, reject) => {
    work.then(resolve, (error: unknown) => {
      const isOver = error instanceof Error && undelivered.has(error);
      // The statement that failed the transaction has already reported it.
      if (isOver || codeOf(driverError(error)) === failedTransaction) result.catch(() => undefined);
      if (isOver) onRefused(error);
      reject(error);
    });
  });
  return result;
}
