import type { TransactionClient } from "./client.ts";
import { has, notTransaction } from "./shape.ts";

type PostgresJs = { unsafe(text: string, values: unknown[]): PromiseLike<unknown> };

/** The `tx` of postgres.js's `sql.begin`, or a reserved connection after BEGIN. */
export function postgresJs(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "unsafe")) return undefined;
  if (has(tx, "begin"))
    throw notTransaction("the postgres.js client", "the tx of sql.begin(async (tx) => …)");
  return {
    query: (text, values) => (tx as PostgresJs).unsafe(text, values),
    // A reserved connection may run one transaction after another.
    ...(has(tx, "release") ? {} : { identity: tx as object }),
  };
}
