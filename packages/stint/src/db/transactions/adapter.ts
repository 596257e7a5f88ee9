import type { TransactionClient } from "./client.ts";
import { isPgPool } from "./pg.ts";
import { has, notTransaction } from "./shape.ts";

type Adapter = { query(text: string, values: unknown[]): unknown };

/** `{ query(text, values) }`: any other client, in two lines. */
export function adapter(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "query")) return undefined;
  if (isPgPool(tx))
    throw notTransaction(
      "a pg Pool, whose every query may run on another connection",
      "a client of pool.connect() after BEGIN",
    );
  return { query: (text, values) => (tx as Adapter).query(text, values) };
}
