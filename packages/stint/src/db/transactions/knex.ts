import type { TransactionClient } from "./client.ts";
import { call, ended, has, notTransaction, read } from "./shape.ts";

type Knex = { raw(text: string, bindings: unknown[]): PromiseLike<unknown> };

/** The `trx` of Knex's `knex.transaction`. */
export function knex(tx: unknown): TransactionClient | undefined {
  if (typeof tx !== "function" || !has(tx, "raw", "transaction")) return undefined;
  if (read(tx, "isTransaction") !== true)
    throw notTransaction("the Knex instance", "the trx of knex.transaction(async (trx) => …)");
  return {
    identity: tx,
    requireOpen() {
      if (call(tx, "isCompleted") === true) throw ended("Knex");
    },
    isEnded: (error) => String(read(error, "message")).includes("Transaction query already complete"),
    query(text, values) {
      const { sql, bindings } = withQuestionMarks(text, values);
      return (tx as unknown as Knex).raw(sql, bindings);
    },
  };
}

/** Knex takes values by `?` in the order of the text, not by `$1`. */
function withQuestionMarks(text: string, values: readonly unknown[]): { sql: string; bindings: unknown[] } {
  const bindings: unknown[] = [];
  const sql = text.replaceAll(/\?|\$(\d+)/g, (_, number?: string) => {
    if (number === undefined) return String.raw`\?`;
    bindings.push(values[Number(number) - 1]);
    return "?";
  });
  return { sql, bindings };
}
