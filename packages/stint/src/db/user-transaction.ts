import { InvalidOptionError } from "../errors.ts";
import type { Row, Run } from "./db.ts";
import { forSchema, type Statement } from "./statement.ts";

/**
 * A transaction of pg, postgres.js, Drizzle or Kysely; or the two lines it takes to bring any other client:
 * something that runs a text with `$1` values. The properties that must not be there are those of a client or
 * pool, which would enqueue outside the transaction.
 */
export type TransactionLike =
  | { query(text: string, values: unknown[]): PromiseLike<unknown>; readonly totalCount?: never }
  | { unsafe(text: string, values: never[]): PromiseLike<unknown>; readonly begin?: never }
  | { execute(query: never): PromiseLike<unknown>; readonly dialect?: unknown }
  | { executeQuery(query: never): PromiseLike<unknown>; readonly isTransaction: true };

type Query = (text: string, values: unknown[]) => PromiseLike<unknown>;

/**
 * Our statements, run in the user's own transaction. Clients are told apart by the method they run raw text with,
 * so none of them has to be installed or imported.
 *
 * @throws {InvalidOptionError} This is no transaction, as far as can be told.
 */
export function inTransaction(tx: unknown, schema: string): Run {
  const query = queryOf(tx);
  return {
    async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      await requireBegun(tx);
      return rowsOf(await query(forSchema(statement.text, schema), [...values]));
    },
  };
}

function queryOf(tx: unknown): Query {
  if (has(tx, "unsafe")) {
    if (has(tx, "begin")) throw notTransaction("the postgres.js client", "sql.begin(async (tx) => …)");
    return postgresJs(tx as PostgresJs);
  }
  if (has(tx, "executeQuery")) {
    if ((tx as { isTransaction?: unknown }).isTransaction !== true)
      throw notTransaction("the Kysely instance", "db.transaction().execute(async (tx) => …)");
    return kysely(tx as Kysely);
  }
  if (has(tx, "execute") && (tx as { dialect?: unknown }).dialect !== undefined) {
    const client = drizzleClient(tx);
    if (isPgPool(client) || has(client, "begin"))
      throw notTransaction("the Drizzle database", "db.transaction(async (tx) => …)");
    return drizzle(tx as Drizzle);
  }
  if (has(tx, "query")) {
    if (isPgPool(tx))
      throw notTransaction(
        "a pg Pool, whose every query may run on another connection",
        "a client of pool.connect() after BEGIN",
      );
    return async (text, values) => await (tx as { query: Query }).query(text, values);
  }
  throw new InvalidOptionError(
    "stint.in(tx)",
    "this is no transaction of pg, postgres.js, Drizzle or Kysely. For another client pass " +
      "{ query: (text, values) => rows }, running the text with its $1 values in your transaction.",
  );
}

function has(value: unknown, method: string): boolean {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    typeof (value as Record<string, unknown>)[method] === "function"
  );
}

function isPgPool(value: unknown): boolean {
  return has(value, "connect") && typeof (value as { totalCount?: unknown }).totalCount === "number";
}

/** What a Drizzle database was made from. A transaction of Drizzle's own has none. */
function drizzleClient(tx: unknown): unknown {
  return (tx as { $client?: unknown }).$client;
}

function notTransaction(what: string, instead: string): InvalidOptionError {
  return new InvalidOptionError(
    "stint.in(tx)",
    `this is ${what}, not a transaction. Pass the tx of ${instead}, or use stint.enqueue(…) to enqueue without one.`,
  );
}

/**
 * A pg client knows whether it is in a transaction. Without this a forgotten BEGIN would go unnoticed until the
 * rollback that takes nothing back.
 */
async function requireBegun(tx: unknown): Promise<void> {
  const client = (has(tx, "getTransactionStatus") ? tx : drizzleClient(tx)) as PgClient | undefined;
  if (!has(client, "getTransactionStatus") || client?.getTransactionStatus() !== "I") return;
  // A BEGIN may be on its way, not awaited: ask again after everything that was sent before.
  await client.query("");
  if (client.getTransactionStatus() === "I")
    throw notTransaction("a pg client on which no transaction was begun", "a client after BEGIN");
}

type PgClient = { getTransactionStatus: () => string | null; query: (text: string) => Promise<unknown> };

type PostgresJs = { unsafe: (text: string, values: unknown[]) => PromiseLike<unknown> };
function postgresJs(tx: PostgresJs): Query {
  return (text, values) => tx.unsafe(text, values);
}

type Kysely = { executeQuery: (compiled: object) => Promise<unknown> };
function kysely(tx: Kysely): Query {
  return (text, values) =>
    tx.executeQuery({
      sql: text,
      parameters: values,
      query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
      queryId: { queryId: "stint" },
    });
}

type Drizzle = { execute: (query: object) => PromiseLike<unknown> };
function drizzle(tx: Drizzle): Query {
  // Drizzle asks a query for its SQL object, and that object for text and parameters. Answering those two
  // questions is all it needs, and spares an import of drizzle-orm.
  const built = (text: string, values: unknown[]): object => ({
    toQuery: () => ({ sql: text, params: values }),
  });
  return (text, values) => tx.execute({ getSQL: () => built(text, values) });
}

function rowsOf(answer: unknown): Row[] {
  if (Array.isArray(answer)) return answer as Row[];
  const rows: unknown = (answer as { rows?: unknown } | null | undefined)?.rows;
  if (Array.isArray(rows)) return rows as Row[];
  throw new InvalidOptionError(
    "stint.in(tx)",
    "query() must answer an array of rows, or an object with `rows`. The job is written if your transaction commits.",
  );
}
