import type { TransactionClient } from "./client.ts";
import { call, has, notTransaction, read } from "./shape.ts";

const instead = "the em of em.transactional(async (em) => …)";

/** The `em` of MikroORM's `em.transactional`, or one after `em.begin`. Its transaction is one of Knex or Kysely. */
export function mikroOrm(
  tx: unknown,
  recognise: (tx: unknown) => TransactionClient,
): TransactionClient | undefined {
  if (has(read(tx, "em"), "getTransactionContext")) throw notTransaction("the MikroORM instance", instead);
  if (!has(tx, "getTransactionContext", "getConnection")) return undefined;
  const inside = (): TransactionClient => {
    const context = call(tx, "getTransactionContext");
    if (context === undefined)
      throw notTransaction(
        "a MikroORM EntityManager on which no transaction was begun, or whose transaction has ended",
        instead,
      );
    return recognise(context);
  };
  return inside();
}
