import type { Query, TransactionClient } from "./client.ts";
import { ended, has, notTransaction, read } from "./shape.ts";

type Compiled = {
  readonly sql: string;
  readonly parameters: unknown[];
  readonly query: object;
  queryId: object;
};
type Connection = { executeQuery(compiled: Compiled): Promise<unknown> };
type Kysely = Connection & {
  getExecutor(): { provideConnection<T>(consumer: (connection: Connection) => Promise<T>): Promise<T> };
};

/** The `tx` of Kysely's `db.transaction()` or `db.startTransaction()`. */
export function kysely(tx: unknown): TransactionClient | undefined {
  if (!has(tx, "executeQuery", "getExecutor")) return undefined;
  if (read(tx, "isTransaction") !== true)
    throw notTransaction("the Kysely instance", "the tx of db.transaction().execute(async (tx) => …)");
  const inside = tx as Kysely;
  return {
    identity: inside,
    requireOpen() {
      if (read(tx, "isCommitted") === true || read(tx, "isRolledBack") === true) throw ended("Kysely");
    },
    isEnded: (error) =>
      /^Transaction is already (?:committed|rolled back)/.test(String(read(error, "message"))),
    query: async (text, values) => await inside.executeQuery(compiled({ text, values })),
    // Kysely lends its connection to one query at a time, and COMMIT does not wait for those that queue for it. All
    // queries therefore share one loan.
    queryAll(queries) {
      const send = async (): Promise<PromiseSettledResult<unknown>[]> =>
        await inside
          .getExecutor()
          .provideConnection((connection) =>
            Promise.allSettled(queries.map((query) => connection.executeQuery(compiled(query)))),
          );
      const settled = send();
      return queries.map(async (_, index) => {
        const one = (await settled)[index];
        if (one?.status === "fulfilled") return one.value;
        throw one?.reason;
      });
    },
  };
}

function compiled({ text, values }: Query): Compiled {
  return {
    sql: text,
    parameters: values,
    query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
    queryId: { queryId: "stint" },
  };
}
