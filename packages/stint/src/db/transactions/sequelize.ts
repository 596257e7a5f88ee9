import type { TransactionClient } from "./client.ts";
import { ended, has, notTransaction, read } from "./shape.ts";

type Sequelize = { query(text: string, options: object): PromiseLike<unknown> };
const instead = "the transaction of sequelize.transaction(async (transaction) => …)";

/** The `transaction` of Sequelize's `sequelize.transaction`; also as `{ transaction }`, the way its queries take it. */
export function sequelize(tx: unknown): TransactionClient | undefined {
  if (has(tx, "query", "define", "transaction", "authenticate"))
    throw notTransaction("the Sequelize instance", instead);
  const inner = read(tx, "transaction");
  const transaction = isTransaction(inner) ? inner : tx;
  if (!isTransaction(transaction)) return undefined;
  return {
    identity: transaction as object,
    requireOpen() {
      if (read(transaction, "finished") !== undefined) throw ended("Sequelize");
    },
    query: (text, values) =>
      (read(transaction, "sequelize") as Sequelize).query(text, {
        bind: values,
        transaction,
        type: "SELECT",
      }),
  };
}

function isTransaction(value: unknown): boolean {
  return has(value, "commit", "rollback") && has(read(value, "sequelize"), "query");
}
