import type { ServerClock } from "./server-clock.ts";
import type { Statement } from "./statement.ts";

export type Row = Record<string, unknown>;

export type RunOptions = {
  /** How long this statement may take before its connection is given up. */
  deadlineMs?: number;
};

/** Something that runs our statements: a pool, a transaction of ours, or a transaction of the user's. */
export interface Run {
  run(statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]>;
}

/** A transaction handed to a handler: run your own statements in it, or build your query builder on `client`. */
export interface Tx {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
  /**
   * The `pg` client the transaction runs on, for `drizzle({ client })`, Kysely and the like. Let go of it when the
   * transaction ends: it serves others afterwards, and unlike `query` it cannot refuse.
   */
  readonly client: unknown;
}

/**
 * `begunAt`: when the transaction began, in microseconds by the server's clock. No other on its connection has the same.
 * `backend`: process id of its session. Unknown behind a pooler.
 */
export type DbTx = Tx & Run & { readonly begunAt: string; readonly backend: number | undefined };

/** The database failed the transaction, and not the code in it. `connected`: there was a connection. */
export type OnFault = (fault: unknown, connected: boolean) => void;

export interface Db extends Run {
  readonly schema: string;
  /** What is known of the database's clock. */
  readonly clock: ServerClock;
  /**
   * Runs `work` in a transaction on a connection of its own: committed if it resolves, rolled back if it rejects. With `onFault` the
   * connection is lent to code of the user's, which may do anything to it: it is watched, and its session is reset afterwards.
   */
  transaction<T>(work: (tx: DbTx) => Promise<T>, onFault?: OnFault): Promise<T>;
  close(): Promise<void>;
}

/**
 * The connection went away, or the deadline passed, after a statement was sent. Whether it took effect is not
 * known; whoever sent it must find out or say so.
 */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
  /** Process id of the session that may still work on the statement. Unknown behind a pooler. */
  backend: number | undefined;
}
