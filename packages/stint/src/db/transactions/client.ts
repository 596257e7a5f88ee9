import { has } from "./shape.ts";

/** A transaction of one client library. Clients are recognized by their shape; none is imported. */
export type TransactionClient = {
  /** Runs a text with `$1` values. Sends it before it returns, so that a COMMIT or ROLLBACK called later comes later. */
  query(text: string, values: unknown[]): unknown;
  /** Runs queries with no other statement between them. Default: `query` for each. */
  queryAll?(queries: readonly Query[]): Promise<unknown>[];
  /** @throws {InvalidOptionError} The client knows that no transaction is open. */
  requireOpen?(): void;
  /** Whether this error of the client means that the transaction has ended. */
  isEnded?(error: unknown): boolean;
  /** True if a query sent now is certain to run in the transaction. Default: the database has to check it. */
  isCertain?(): boolean;
  /** An object that identifies this transaction and no later one. */
  readonly identity?: object;
};

export type Query = { readonly text: string; readonly values: unknown[] };

/** Starts a lazy query at once. `await` and `Promise.resolve` would start it one microtask later. */
export function started(query: PromiseLike<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => void query.then(resolve, reject));
}

/** A client may return its rows synchronously. */
export function isQuery(value: unknown): value is PromiseLike<unknown> {
  return has(value, "then");
}
