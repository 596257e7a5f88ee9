import { Pool, types, type ClientBase, type PoolClient, type QueryConfig, type QueryResult } from "pg";
import { DatabaseUnavailableError, InvalidOptionError } from "../errors.ts";
import { maskUrl } from "../runtime/mask.ts";
import { readTime, ReadingClient } from "./client.ts";
import { borrow } from "./borrow.ts";
import { couldNotConnect, toClientConfig, type Connection, type PoolLike } from "./connection.ts";
import { ConnectionLost, type Db, type DbTx, type OnFault } from "./db.ts";
import type { Row, RunOptions } from "./db.ts";
import { LentConnection } from "./lent-connection.ts";
import { runLocally } from "./local-query.ts";
import { ServerClock } from "./server-clock.ts";
import { isUnavailable } from "./transient.ts";
import {
  handlerSettings,
  localSettings,
  noTimeLimits,
  ownSettings,
  resetSession,
  transactionTime,
  type Settings,
} from "./session-settings.ts";
import { codeOf, isLostStatement, dbErrorCategory } from "./sqlstate.ts";
import { forSchema, type Statement } from "./statement.ts";
import { Semaphore } from "./semaphore.ts";

export type PgDbOptions = {
  connection: Connection;
  /** Used in place of connections of our own. Its sessions are the application's, as those of a pooler are others'. */
  pool?: PoolLike | undefined;
  schema: string;
  /** Connections for the library's own statements. Never lent to handlers. */
  connections: number;
  /** Connections for handlers' transactions, opened only when asked for. */
  transactions: number;
  applicationName: string;
  /** Named prepared statements. Default: on, but behind a pooler. False: as if there were a pooler. */
  prepare?: boolean | undefined;
  deadlineMs: number;
  /** How long the server may work on one statement, for questions that must never hold it up. */
  statementTimeoutMs?: number;
  connectDeadlineMs: number;
  /** Shared by those who use the same server. */
  clock?: ServerClock;
  onError: (error: Error) => void;
  /** A connection goes through a pooler; or one that looked direct lost its named statements, so it must. */
  onPooler?: (how: "detected" | "statements lost") => void;
};

/** `Db` on node-postgres. The only pools the library has. */
export class PgDb implements Db {
  readonly schema: string;
  readonly clock: ServerClock;
  readonly #options: PgDbOptions;
  readonly #own: Pool;
  readonly #ownSettings: Settings;
  readonly #transactionSlots: Semaphore;
  #transactions: Pool | undefined;
  /** Set once named statements were lost: on every connection from then on. */
  #assumePooled: boolean;
  readonly #texts = new Map<Statement, string>();

  constructor(options: PgDbOptions) {
    this.schema = options.schema;
    this.clock = options.clock ?? new ServerClock();
    this.#options = options;
    this.#assumePooled = options.prepare === false || options.pool !== undefined;
    const { statementTimeoutMs } = options;
    this.#ownSettings = { ...ownSettings, ...noTimeLimits };
    if (statementTimeoutMs !== undefined)
      this.#ownSettings = { ...this.#ownSettings, statement_timeout: String(statementTimeoutMs) };
    this.#own = this.#openPool(options.connections, this.#ownSettings);
    this.#transactionSlots = new Semaphore(options.transactions);
  }

  async run(statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> {
    const send = async (): Promise<Row[]> =>
      await runOn(
        await this.#connect(this.#own),
        async (client) => await this.#send(client, statement, values, options, this.#isPooled(client)),
      );
    try {
      return await send();
    } catch (error) {
      if (!this.#lostStatement(error)) throw error;
      // The server refused it before it ran, so it may be sent again.
      return await send();
    }
  }

  async transaction<T>(work: (tx: DbTx) => Promise<T>, onFault?: OnFault): Promise<T> {
    const pool = (this.#transactions ??= this.#openPool(this.#options.transactions, handlerSettings));
    const lend = async (): Promise<T> => {
      const client = await this.#connect(pool).catch((error: unknown) => {
        onFault?.(error, false);
        throw error;
      });
      const transact =
        onFault === undefined
          ? async () => await this.#transact(client, work)
          : async () => await this.#lend(client, work, onFault);
      return await runOn(client, transact);
    };
    // In line for a connection, not in the pool: there the wait would count against the time to connect, and handlers
    // that hold theirs for long would fail the others.
    return await this.#transactionSlots.run(lend);
  }

  async #lend<T>(client: PoolClient, work: (tx: DbTx) => Promise<T>, onFault: OnFault): Promise<T> {
    const lent = new LentConnection(client);
    try {
      return await this.#transact(client, work);
    } catch (error) {
      const fault =
        lent.faultBehind(error) ?? (isUnavailable(error) || spoilt.has(client) ? error : undefined);
      // A handler may have put another error in its place.
      if (dbErrorCategory(fault) === "connection") spoilt.add(client);
      if (fault !== undefined) onFault(fault, true);
      throw error;
    } finally {
      lent.release();
      await this.#resetSession(client);
    }
  }

  /** What a handler has set must not reach the next one. Not behind a pooler: its sessions are not ours to reset. */
  async #resetSession(client: PoolClient): Promise<void> {
    if (spoilt.has(client) || this.#isPooled(client)) return;
    try {
      await this.#control(client, resetSession);
    } catch {
      spoilt.add(client);
    }
  }

  async #transact<T>(client: PoolClient, work: (tx: DbTx) => Promise<T>): Promise<T> {
    let over = false;
    let failed: { readonly error: unknown } | undefined;
    const send = async (text: string, values: readonly unknown[] = []): Promise<{ rows: Row[] }> => {
      // By now the connection may serve another job's transaction.
      if (over) throw new InvalidOptionError("tx.query", "was called after its transaction had ended");
      return { rows: (await client.query<Row>(text, [...values])).rows };
    };
    const query = (text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> => {
      const answer = send(text, values);
      // One that is not awaited must not end the process. It has aborted the transaction, which then fails with its error.
      answer.catch((error: unknown) => (failed ??= { error }));
      return answer;
    };
    const run = (statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> =>
      this.#send(client, statement, values, options);

    const begun = await this.#control(client, this.#isPooled(client) ? beginLocally : begin);
    try {
      const begunAt = begun.rows[0]?.["at"] as string;
      const result = await work({ query, run, client, begunAt, backend: backendOf(client) });
      over = true;
      const { command } = await this.#control(client, "commit");
      // Postgres answers the commit of an aborted transaction with success, and rolls it back.
      if (command === "ROLLBACK")
        throw failed?.error ?? new Error("the transaction was aborted, and its commit rolled it back");
      return result;
    } catch (error) {
      over = true;
      // A connection that is gone has rolled back by itself; saying so must not hide why.
      if (!(error instanceof ConnectionLost)) await this.#control(client, "rollback").catch(() => undefined);
      if (failed !== undefined && codeOf(error) === "25P02") throw failed.error;
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#options.pool === undefined) await Promise.all([this.#own.end(), this.#transactions?.end()]);
  }

  async #connect(pool: Pool): Promise<PoolClient> {
    try {
      if (this.#options.pool === undefined) return await pool.connect();
      return await borrow(pool, this.#options.deadlineMs);
    } catch (error) {
      throw couldNotConnect(error);
    }
  }

  /** `locally`: with settings for this statement alone, because other clients of the pooler get the session next. */
  async #send(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    options: RunOptions | undefined,
    locally = false,
  ): Promise<Row[]> {
    const config = this.#config(client, statement, values);
    const answer = locally
      ? runLocally(client, config, localSettings(this.#ownSettings))
      : client.query<Row>(config);
    try {
      const deadlineMs = options?.deadlineMs ?? this.#options.deadlineMs;
      return (await answered(client, answer, statement.name, deadlineMs)).rows;
    } catch (error) {
      this.clock.learnFrom(error);
      if (error instanceof ConnectionLost) error.backend = backendOf(client);
      if (locally && !spoilt.has(client))
        await this.#control(client, "rollback").catch(() => spoilt.add(client));
      throw error;
    }
  }

  #config(client: PoolClient, statement: Statement, values: readonly unknown[]): QueryConfig {
    let text = this.#texts.get(statement);
    if (text === undefined) this.#texts.set(statement, (text = forSchema(statement.text, this.schema)));
    const config: QueryConfig = { text, values: [...values] };
    if (statement.asText) config.types = asText;
    // Clients of the application may read times as it likes.
    else if (this.#options.pool !== undefined) config.types = withTimes;
    // Asked for in so many words, statements are named behind a pooler, too: there are some that carry them.
    const named = this.#options.prepare === true && !this.#assumePooled;
    if (named || !this.#isPooled(client)) config.name = `${this.schema}.${statement.name}`;
    return config;
  }

  #isPooled(client: PoolClient): boolean {
    return this.#assumePooled || (client instanceof ReadingClient && client.pooled);
  }

  /** A pooler that hands out the server's own keys is found out when it loses named statements. */
  #lostStatement(error: unknown): boolean {
    if (!isLostStatement(error)) return false;
    if (!this.#assumePooled) this.#options.onPooler?.("statements lost");
    this.#assumePooled = true;
    return true;
  }

  /** Under the deadline too. A commit that is given up on may still happen, which is what ConnectionLost says. */
  async #control(client: PoolClient, text: string): Promise<QueryResult<Row>> {
    return await answered(client, lastOf(client.query<Row>(text)), text, this.#options.deadlineMs);
  }

  #openPool(max: number, settings: Settings): Pool {
    const options = this.#options;
    if (options.pool !== undefined) return options.pool as unknown as Pool;
    const pool = new Pool({
      ...toClientConfig(options.connection),
      max,
      Client: ReadingClient,
      // Before anybody gets the connection, and once for its life. The pool waits for it, though its types do not say so.
      onConnect: (client: ClientBase): unknown => this.#connected(client, settings),
      // No other parameter at the start: PgBouncer refuses those it does not know.
      application_name: options.applicationName,
      connectionTimeoutMillis: options.connectDeadlineMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      // A connection is not kept for ever: after a failover, DNS or a proxy may point elsewhere by now.
      maxLifetimeSeconds: 3600,
    });
    // Without a listener an idle connection that dies would end the host process.
    pool.on("error", options.onError);
    pool.on("connect", (client) => {
      client.on("error", options.onError);
      client.on("notice", (notice) => {
        if (isUnreplicatedCommit(notice)) unreplicated.add(client);
      });
    });
    return pool;
  }

  async #connected(client: ClientBase, settings: Settings): Promise<void> {
    if (!(client instanceof ReadingClient)) return;
    // The pool's own limit ends with the login. A server that freezes right after it, or a pooler that has no connection to spare,
    // would be waited for without end. While a query is under way `end` closes the socket, and the query fails.
    const timer = setTimeout(() => void client.end().catch(() => undefined), this.#options.connectDeadlineMs);
    try {
      await client.firstStatement(settings, this.#assumePooled);
    } finally {
      clearTimeout(timer);
    }
    if (client.pooled && !this.#assumePooled) this.#options.onPooler?.("detected");
  }
}

function backendOf(client: PoolClient): number | undefined {
  return client instanceof ReadingClient ? client.backend : undefined;
}

const begin = `begin; ${transactionTime}`;
/** In one message: nothing of the handler's may run without it. */
const beginLocally = `begin; ${localSettings(handlerSettings)}; ${transactionTime}`;

/** The driver answers several statements in one message with an array of results, though its types do not say so. */
async function lastOf(answer: Promise<QueryResult<Row>>): Promise<QueryResult<Row>> {
  const results: unknown = await answer;
  return Array.isArray(results) ? (results.at(-1) as QueryResult<Row>) : (results as QueryResult<Row>);
}

const keptAsText = new Set<number>([types.builtins.TIMESTAMPTZ, types.builtins.JSONB]);

const timestamptz: number = types.builtins.TIMESTAMPTZ;

/** How the driver reads times, whatever the application has told it. */
const withTimes: typeof types = {
  ...types,
  getTypeParser: ((oid: number, format?: "text") =>
    oid === timestamptz ? readTime : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
};

/** How the driver reads the answers of statements that want text. */
export const asText: typeof types = {
  ...types,
  getTypeParser: ((oid: number, format?: "text") =>
    keptAsText.has(oid) ? String : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
};

/** Gives the client back when the work is done, or away for good when its connection can no longer be trusted. */
async function runOn<T>(client: PoolClient, work: (client: PoolClient) => Promise<T>): Promise<T> {
  try {
    return await work(client);
  } catch (error) {
    if (dbErrorCategory(error) === "connection") spoilt.add(client);
    throw error;
  } finally {
    client.release(spoilt.has(client));
  }
}

// Noted where the trouble is seen, not told from the error that comes out: the work may have put another in its place,
// and a client that goes back to the pool with an unanswered statement would give its answer to the next caller.
const spoilt = new WeakSet<object>();

async function answered(
  client: PoolClient,
  answer: Promise<QueryResult<Row>>,
  name: string,
  deadlineMs: number,
): Promise<QueryResult<Row>> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const deadline = new Promise<never>((_, reject) => {
      const giveUp = (): void => reject(new ConnectionLost(`${name}: no answer within ${deadlineMs} ms`));
      // An event loop that stood still sees its overdue timers first. One more turn reads an answer that has long come;
      // throwing away the answer of a claim would leave its jobs to nobody.
      timer = setTimeout(() => setImmediate(giveUp), deadlineMs);
    });
    const result = await Promise.race([answer, deadline]);
    if (unreplicated.delete(client))
      throw new ConnectionLost(`${name}: the wait for the standby was cancelled`);
    return result;
  } catch (error) {
    answer.catch(() => undefined);
    if (error instanceof ConnectionLost || dbErrorCategory(error) === "connection") spoilt.add(client);
    if (codeOf(error) === "25006") throw new DatabaseUnavailableError("it is read-only", { cause: error });
    if (dbErrorCategory(error) === "connection")
      throw new ConnectionLost(`${name}: ${maskUrl((error as Error).message)}`, { cause: error });
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

// Postgres answers a cancelled wait for its synchronous standby with success and a warning. A failover could
// still lose that commit, so it counts as unknown.
const unreplicated = new WeakSet<object>();
function isUnreplicatedCommit(notice: { code?: string | undefined; message?: string | undefined }): boolean {
  return notice.code === "01000" && /synchronous replication/.test(notice.message ?? "");
}
