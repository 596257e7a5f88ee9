import type { TransactionClient } from "./client.ts";
import { has, notTransaction, read } from "./shape.ts";

type Slonik = { query(token: object): PromiseLike<unknown> };

/** The `tx` of Slonik's `pool.transaction`. */
export function slonik(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "any", "maybeOne", "query", "transaction")) return undefined;
  if (has(tx, "connect", "end"))
    throw notTransaction("the Slonik pool", "the tx of pool.transaction(async (tx) => …)");
  return {
    isEnded: (error) =>
      /parent transaction|connection has been released/i.test(String(read(error, "message"))),
    query: (text, values) => (tx as Slonik).query({ type: "SLONIK_TOKEN_QUERY", sql: text, values }),
  };
}
