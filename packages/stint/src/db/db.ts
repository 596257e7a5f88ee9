import type { ServerClock } from "./server-clock.ts";
import type { Statement } from "./statement.ts";

export type Row = Record<string, unknown>;

export type RunOptions = {
  /** How long the client waits for this statement before it drops the connection. */
  deadlineMs?: number;
};

/** Runs statements: a pool, a transaction of the library, or a transaction of the user. */
export interface Run {
  run(statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]>;
}

/** The transaction of a handler: run your own statements in it, or create your query builder on `client`. */
export interface Tx {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
  /**
   * The `pg` client of the transaction, for `drizzle({ client })`, Kysely and similar. Do not use it after the
   * transaction: other transactions use it then, and unlike `query` it cannot refuse the call.
   */
  readonly client: unknown;
}

/**
 * `begunAt`: when the transaction began, in microseconds by the server's clock; unique among the transactions of its connection.
 * `backend`: process id of its session. Unknown behind a pooler.
 */
export type DbTx = Tx & Run & { readonly begunAt: string; readonly backend: number | undefined };

/** Called when the database, not the handler's code, failed the transaction. `connected`: there was a connection. */
export type OnFault = (fault: unknown, connected: boolean) => void;

export interface Db extends Run {
  readonly schema: string;
  /** The estimate of the database's clock. */
  readonly clock: ServerClock;
  /**
   * Runs `work` in a transaction on a separate connection: committed if it resolves, rolled back if it rejects. With `onFault` the
   * connection is lent to user code, which may do anything with it. The protocol is then watched, and the session is reset afterwards.
   * `settles` is the id of the job whose success the transaction records: an enqueue in it may take over that job's dedupe key.
   */
  transaction<T>(work: (tx: DbTx) => Promise<T>, onFault?: OnFault, settles?: string): Promise<T>;
  close(): Promise<void>;
}

/**
 * The connection broke, or the deadline passed, after a statement was sent. Whether it took effect is unknown:
 * the caller must find out, or report an unknown outcome.
 */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
  /** Process id of the session that may still execute the statement. Unknown behind a pooler. */
  backend: number | undefined;
}
