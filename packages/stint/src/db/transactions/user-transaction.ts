import { InvalidOptionError } from "../../errors.ts";
import type { Row, Run } from "../db.ts";
import { forSchema, type Statement } from "../statement.ts";
import { adapter } from "./adapter.ts";
import { isQuery, started, type Query, type TransactionClient } from "./client.ts";
import { drizzle } from "./drizzle.ts";
import { knex } from "./knex.ts";
import { kysely } from "./kysely.ts";
import { mikroOrm } from "./mikro-orm.ts";
import { pg } from "./pg.ts";
import { postgresJs } from "./postgres-js.ts";
import { prisma } from "./prisma.ts";
import { sequelize } from "./sequelize.ts";
import { EndedTransactionError, read } from "./shape.ts";
import { slonik } from "./slonik.ts";
import { typeOrm } from "./typeorm.ts";

/**
 * A transaction of pg, postgres.js, Drizzle, Kysely, Prisma, Knex, TypeORM, Sequelize, MikroORM or Slonik; or a two-line
 * adapter for any other client, which runs a text with `$1` values. The forbidden properties are those of a client or
 * pool, which would enqueue outside the transaction.
 */
export type TransactionLike =
  | {
      query(text: string, values: unknown[]): PromiseLike<unknown>;
      readonly totalCount?: never;
      readonly createQueryRunner?: never;
    }
  | { unsafe(text: string, values: never[]): PromiseLike<unknown>; readonly begin?: never }
  | { execute(query: never): PromiseLike<unknown>; readonly dialect?: unknown }
  | { executeQuery(query: never): PromiseLike<unknown>; readonly isTransaction: true }
  | { $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>; readonly $connect?: never }
  | { raw(text: never, values: never): unknown; isCompleted(): boolean }
  | SequelizeTransaction
  | { readonly transaction: SequelizeTransaction }
  | { getTransactionContext(): unknown; isInTransaction(): boolean }
  | { query(token: never): PromiseLike<unknown>; maybeOne: unknown; readonly connect?: never };

type SequelizeTransaction = { commit(): unknown; rollback(): unknown; afterCommit(hook: never): unknown };

type Recogniser = (
  tx: unknown,
  recognise: (inner: unknown) => TransactionClient,
) => TransactionClient | undefined;

/** From the most to the least specific shape: several clients have a `query`. */
const recognisers: readonly Recogniser[] = [
  prisma,
  knex,
  sequelize,
  mikroOrm,
  slonik,
  typeOrm,
  postgresJs,
  kysely,
  drizzle,
  pg,
  adapter,
];

/** A statement with its values. */
export type Prepared = { readonly statement: Statement; readonly values: readonly unknown[] };

/** Runs Stint's statements in a transaction of the user's client. */
export class UserTransaction implements Run {
  readonly #client: TransactionClient;
  readonly #schema: string;

  /** @throws {InvalidOptionError} Its shape is not that of a transaction. */
  constructor(tx: unknown, schema: string) {
    this.#client = recognise(tx);
    this.#schema = schema;
  }

  /** @throws {InvalidOptionError} The client knows that no transaction is open. */
  requireOpen(): void {
    this.#client.requireOpen?.();
  }

  /** Whether a statement sent now certainly runs in the transaction. Otherwise the statement has to check it. */
  isCertain(): boolean {
    return this.#client.isCertain?.() === true;
  }

  /** An object that identifies this transaction and no other. */
  get identity(): object | undefined {
    return this.#client.identity;
  }

  /** Sends the statement before it returns. */
  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const query = this.#query({ statement, values });
    try {
      const sent = this.#client.query(query.text, query.values);
      return rowsOf(isQuery(sent) ? await started(sent) : sent);
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** Sends statements, with no other between them, before it returns. */
  runAll(statements: readonly Prepared[]): Promise<Row[]>[] {
    const sent = this.#client.queryAll?.(statements.map((one) => this.#query(one)));
    if (sent === undefined) return statements.map(({ statement, values }) => this.run(statement, values));
    return sent.map(async (result) =>
      rowsOf(
        await result.catch((error: unknown) => {
          throw this.#explain(error);
        }),
      ),
    );
  }

  #explain(error: unknown): unknown {
    if (this.#client.isEnded?.(error) !== true) return error;
    const reason = String(read(error, "message"));
    return new EndedTransactionError(`this transaction has ended or cannot be used (${reason})`, {
      cause: error,
    });
  }

  #query({ statement, values }: Prepared): Query {
    return { text: forSchema(statement.text, this.#schema), values: [...values] };
  }
}

function recognise(tx: unknown): TransactionClient {
  for (const recogniser of recognisers) {
    const client = recogniser(tx, recognise);
    if (client !== undefined) return client;
  }
  throw new InvalidOptionError(
    "stint.in(tx)",
    "this is no transaction of pg, postgres.js, Drizzle, Kysely, Prisma, Knex, TypeORM, Sequelize, MikroORM or Slonik. " +
      "For another client pass " +
      "{ query: (text, values) => rows }, running the text with its $1 values in your transaction.",
  );
}

function rowsOf(result: unknown): Row[] {
  if (Array.isArray(result)) return result as Row[];
  const rows = read(result, "rows");
  if (Array.isArray(rows)) return rows as Row[];
  throw new InvalidOptionError(
    "stint.in(tx)",
    "query() must return an array of rows, or an object with `rows`. The job is written if your transaction commits.",
  );
}
