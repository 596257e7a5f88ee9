import type { TransactionClient } from "./client.ts";
import { has, notTransaction, read } from "./shape.ts";

type PgClient = { query(text: string, values: unknown[]): PromiseLike<unknown> };

/** pg's Client and PoolClient. */
export function pg(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "query", "getTransactionStatus")) return undefined;
  return {
    query: (text, values) => (tx as PgClient).query(text, values),
    requireOpen: () => requireBegun(tx),
    isCertain: () => isInTransaction(tx),
  };
}

export function isPgPool(value: unknown): boolean {
  return has(value, "connect") && typeof read(value, "totalCount") === "number";
}

/** Otherwise a missing BEGIN would stay unnoticed until a rollback that undoes nothing. */
export function requireBegun(client: unknown): void {
  if (isIdle(client) && statusOf(client) === "I")
    throw notTransaction(
      "a pg client on which no transaction was begun, or whose transaction has ended",
      "a client after BEGIN and before COMMIT",
    );
}

/** Whether a query sent now certainly runs in a transaction: one is open, and no COMMIT can be in flight. */
export function isInTransaction(client: unknown): boolean {
  return isIdle(client) && statusOf(client) === "T";
}

function statusOf(client: unknown): unknown {
  return (client as { getTransactionStatus: () => unknown }).getTransactionStatus();
}

/** No query is in flight. A pg version with other internals never counts as idle, so the database checks. */
function isIdle(client: unknown): boolean {
  if (!has(client, "getTransactionStatus") || read(client, "readyForQuery") !== true) return false;
  const [queue, sent] = [read(client, "_queryQueue"), read(client, "_sentQueryQueue")];
  return Array.isArray(queue) && queue.length === 0 && (!Array.isArray(sent) || sent.length === 0);
}
