import type { TransactionClient } from "./client.ts";
import { isInTransaction, isPgPool, requireBegun } from "./pg.ts";
import { has, notTransaction, read } from "./shape.ts";

type Adapter = { query(text: string, values: unknown[]): unknown };

/** `{ query(text, values) }`: any other client, in two lines; with the pg client it runs on as `client`, a handler's `tx`. */
export function adapter(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "query")) return undefined;
  if (isPgPool(tx))
    throw notTransaction(
      "a pg Pool, whose every query may run on another connection",
      "a client of pool.connect() after BEGIN",
    );
  const client = read(tx, "client");
  return {
    query: (text, values) => (tx as Adapter).query(text, values),
    requireOpen: () => requireBegun(client),
    isCertain: () => isInTransaction(client),
  };
}
