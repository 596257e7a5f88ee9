import type { TransactionClient } from "./client.ts";
import { has, notTransaction, read } from "./shape.ts";

type TypeOrm = { query(text: string, values: unknown[]): PromiseLike<unknown> };
const instead = "the manager of dataSource.transaction(async (manager) => …)";

/** The `manager` of TypeORM's `dataSource.transaction`, a repository of it, or a QueryRunner after `startTransaction`. */
export function typeOrm(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "query")) return undefined;
  if (has(tx, "createQueryRunner", "initialize")) throw notTransaction("the TypeORM DataSource", instead);
  if (has(read(tx, "manager"), "query", "getRepository") && read(tx, "metadata") !== undefined)
    return typeOrm(read(tx, "manager"));
  if (has(tx, "startTransaction", "commitTransaction")) return onRunner(tx, "a TypeORM QueryRunner");
  if (has(tx, "getRepository", "createQueryBuilder", "withRepository"))
    return onRunner(read(tx, "queryRunner"), "a TypeORM EntityManager");
  return undefined;
}

function onRunner(runner: unknown, what: string): TransactionClient {
  const requireOpen = (): void => {
    if (read(runner, "isTransactionActive") !== true || read(runner, "isReleased") === true)
      throw notTransaction(
        `${what} on which no transaction was started, or whose transaction has ended`,
        instead,
      );
  };
  requireOpen();
  return { requireOpen, query: (text, values) => (runner as TypeOrm).query(text, values) };
}
