import { Pool, types, type ClientBase, type PoolClient, type QueryConfig, type QueryResult } from "pg";
import { InvalidOptionError } from "../errors.ts";
import { readTime, ReadingClient } from "./client.ts";
import { borrow } from "./borrow.ts";
import { couldNotConnect, toClientConfig, type Connection, type PoolLike } from "./connection.ts";
import { ConnectionLost, type Db, type DbTx, type OnFault } from "./db.ts";
import type { Row, RunOptions } from "./db.ts";
import { LentConnection } from "./lent-connection.ts";
import { KeptClients } from "./kept-clients.ts";
import { runLocally } from "./local-query.ts";
import { runNamed } from "./named-query.ts";
import { respondedWithin, watchReplication } from "./responded-within.ts";
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
import { noteLost, release, runOn, spoilt } from "./spoilt-clients.ts";
import { codeOf, isLostStatement, dbErrorCategory } from "./sqlstate.ts";
import { forSchema, type Statement } from "./statement.ts";
import { isUuid } from "../runtime/uuid.ts";
import { Semaphore } from "./semaphore.ts";

export type PgDbOptions = {
  connection: Connection;
  /** Used instead of own connections. Its sessions belong to the application, so they are treated like those of a pooler. */
  pool?: PoolLike | undefined;
  schema: string;
  /** Connections for the library's own statements. Never lent to handlers. */
  connections: number;
  /** Connections for handlers' transactions, opened on first use. */
  transactions: number;
  applicationName: string;
  /** Named prepared statements. Default: on, except behind a pooler. False: treat every connection as pooled. */
  prepare?: boolean | undefined;
  deadlineMs: number;
  /** `statement_timeout`, for queries that must never load the server for long. */
  statementTimeoutMs?: number;
  connectDeadlineMs: number;
  /** Shared by all clients of the same server. */
  clock?: ServerClock;
  onError: (error: Error) => void;
  /** Called when a connection goes through a pooler: detected at login, or because named statements were lost. */
  onPooler?: (how: "detected" | "statements lost") => void;
};

/** `Db` on node-postgres. All pools of the library are here. */
export class PgDb implements Db {
  readonly schema: string;
  readonly clock: ServerClock;
  readonly #options: PgDbOptions;
  readonly #own: Pool;
  /** None of the application's pool: its connections are for all. */
  readonly #kept: KeptClients | undefined;
  readonly #ownSettings: Settings;
  readonly #transactionSlots: Semaphore;
  #transactions: Pool | undefined;
  /** Set once named statements were lost; applies to every connection from then on. */
  #assumePooled: boolean;
  readonly #texts = new Map<Statement, { readonly text: string; readonly name: string }>();

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
    if (options.pool === undefined) {
      const kept = new KeptClients(this.#own);
      this.#own.on("connect", (client) => client.on("error", () => kept.lost(client)));
      this.#kept = kept;
    }
    this.#transactionSlots = new Semaphore(options.transactions);
  }

  async run(statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> {
    for (let isRepeat = false; ; isRepeat = true) {
      const client = this.#kept?.take() ?? (await this.#connect(this.#own));
      try {
        return await this.#send(client, statement, values, options, this.#isPooled(client));
      } catch (error) {
        noteLost(error, client);
        // The server refused it before it ran, so it may be sent again.
        if (isRepeat || !this.#lostStatement(error)) throw error;
      } finally {
        if (this.#kept === undefined || spoilt.has(client)) release(client);
        else this.#kept.keep(client);
      }
    }
  }

  async transaction<T>(work: (tx: DbTx) => Promise<T>, onFault?: OnFault, settles?: string): Promise<T> {
    const pool = (this.#transactions ??= this.#openPool(this.#options.transactions, handlerSettings));
    const lend = async (): Promise<T> => {
      const client = await this.#connect(pool).catch((error: unknown) => {
        onFault?.(error, false);
        throw error;
      });
      const transact =
        onFault === undefined
          ? async () => await this.#transact(client, work)
          : async () => await this.#lend(client, work, onFault, settles);
      return await runOn(client, transact);
    };
    // Wait here and not in the pool: there the wait would count against the connect timeout, and handlers with long
    // transactions would fail the others.
    return await this.#transactionSlots.run(lend);
  }

  async #lend<T>(
    client: PoolClient,
    work: (tx: DbTx) => Promise<T>,
    onFault: OnFault,
    settles: string | undefined,
  ): Promise<T> {
    const lent = new LentConnection(client);
    try {
      return await this.#transact(client, work, settles);
    } catch (error) {
      const fault =
        lent.faultBehind(error) ?? (isUnavailable(error) || spoilt.has(client) ? error : undefined);
      // The handler may have replaced the error.
      if (dbErrorCategory(fault) === "connection") spoilt.add(client);
      if (fault !== undefined) onFault(fault, true);
      throw error;
    } finally {
      lent.release();
      await this.#resetSession(client);
    }
  }

  /** Settings of one handler must not reach the next. Not behind a pooler: its sessions belong to other clients, too. */
  async #resetSession(client: PoolClient): Promise<void> {
    if (spoilt.has(client) || this.#isPooled(client)) return;
    try {
      await this.#control(client, resetSession);
    } catch {
      spoilt.add(client);
    }
  }

  async #transact<T>(client: PoolClient, work: (tx: DbTx) => Promise<T>, settles?: string): Promise<T> {
    let over = false;
    let failed: { readonly error: unknown } | undefined;
    const send = async (text: string, values: readonly unknown[] = []): Promise<{ rows: Row[] }> => {
      // The connection may already serve another job's transaction.
      if (over) throw new InvalidOptionError("tx.query", "was called after its transaction had ended");
      return { rows: (await client.query<Row>(text, [...values])).rows };
    };
    const query = (text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> => {
      const response = send(text, values);
      // A query that is not awaited must not cause an unhandled rejection. It aborted the transaction, which fails with its error.
      response.catch((error: unknown) => (failed ??= { error }));
      return response;
    };
    const run = (statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> =>
      this.#send(client, statement, values, options);

    const begun = await this.#control(client, begin(this.#isPooled(client), settles));
    try {
      const begunAt = begun.rows[0]?.["at"] as string;
      const result = await work({ query, run, client, begunAt, backend: backendOf(client) });
      over = true;
      const { command } = await this.#control(client, "commit");
      // Postgres reports success for the commit of an aborted transaction, and rolls it back.
      if (command === "ROLLBACK")
        throw failed?.error ?? new Error("the transaction was aborted, and its commit rolled it back");
      return result;
    } catch (error) {
      over = true;
      // A lost connection rolls back by itself; the error of this rollback must not hide the first one.
      if (!(error instanceof ConnectionLost)) await this.#control(client, "rollback").catch(() => undefined);
      if (failed !== undefined && codeOf(error) === "25P02") throw failed.error;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#kept?.close();
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

  /** `locally`: with settings for this statement only, because the pooler gives the session to other clients next. */
  #send(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    options: RunOptions | undefined,
    locally = false,
  ): Promise<Row[]> {
    const sentMs = this.clock.localMs;
    const rows = respondedWithin(client, this.#rows(client, statement, values, locally), {
      name: statement.name,
      deadlineMs: options?.deadlineMs ?? this.#options.deadlineMs,
      onError: (error) => {
        this.clock.learnFrom(error, sentMs);
        if (error instanceof ConnectionLost) error.backend = backendOf(client);
      },
    });
    return locally ? this.#rolledBack(client, rows) : rows;
  }

  /** A transaction of the pooler's session must not stay open. */
  async #rolledBack(client: PoolClient, rows: Promise<Row[]>): Promise<Row[]> {
    try {
      return await rows;
    } catch (error) {
      if (!spoilt.has(client)) await this.#control(client, "rollback").catch(() => spoilt.add(client));
      throw error;
    }
  }

  #rows(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    locally: boolean,
  ): Promise<Row[]> {
    const { text, name } = this.#installed(statement);
    // The application may have changed how its clients parse times.
    const types = statement.asText ? asText : this.#options.pool === undefined ? undefined : withTimes;
    // `prepare: true` names statements behind a pooler, too: some poolers support them.
    const named = this.#options.prepare === true && !this.#assumePooled;
    const isNamed = named || !this.#isPooled(client);
    if (isNamed && !locally && client instanceof ReadingClient)
      return runNamed(client, { name, text, values, types });
    const config: QueryConfig = { text, values: [...values] };
    if (types !== undefined) config.types = types;
    if (isNamed) config.name = name;
    const response = locally
      ? runLocally(client, config, localSettings(this.#ownSettings))
      : client.query<Row>(config);
    return response.then(({ rows }) => rows);
  }

  /** The text of a statement for this schema, and its name there. */
  #installed(statement: Statement): { readonly text: string; readonly name: string } {
    let installed = this.#texts.get(statement);
    if (installed === undefined) {
      const { schema } = this;
      installed = { text: forSchema(statement.text, schema), name: `${schema}.${statement.name}` };
      this.#texts.set(statement, installed);
    }
    return installed;
  }

  #isPooled(client: PoolClient): boolean {
    return this.#assumePooled || (client instanceof ReadingClient && client.pooled);
  }

  /** A pooler that passes on the server's own keys looks direct. It is detected when it loses named statements. */
  #lostStatement(error: unknown): boolean {
    if (!isLostStatement(error)) return false;
    if (!this.#assumePooled) this.#options.onPooler?.("statements lost");
    this.#assumePooled = true;
    return true;
  }

  /** Under the deadline, too. A commit that times out may still take effect, hence ConnectionLost. */
  async #control(client: PoolClient, text: string): Promise<QueryResult<Row>> {
    const { deadlineMs } = this.#options;
    return await respondedWithin(client, lastOf(client.query<Row>(text)), { name: text, deadlineMs });
  }

  #openPool(max: number, settings: Settings): Pool {
    const options = this.#options;
    if (options.pool !== undefined) return options.pool as unknown as Pool;
    const pool = new Pool({
      ...toClientConfig(options.connection),
      max,
      Client: ReadingClient,
      // Once per connection, before its first use. The pool awaits this callback, although its types do not declare it.
      onConnect: (client: ClientBase): unknown => this.#connected(client, settings),
      // No other startup parameter: PgBouncer refuses unknown ones.
      application_name: options.applicationName,
      connectionTimeoutMillis: options.connectDeadlineMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      // Connections are replaced from time to time: after a failover, DNS or a proxy may point to another server.
      maxLifetimeSeconds: 3600,
    });
    // Without an error listener a lost idle connection would end the host process.
    pool.on("error", options.onError);
    pool.on("connect", (client) => {
      client.on("error", options.onError);
      watchReplication(client);
    });
    return pool;
  }

  async #connected(client: ClientBase, settings: Settings): Promise<void> {
    if (!(client instanceof ReadingClient)) return;
    // The pool's own timeout ends with the login. Without this one, a server that freezes after the login, or a pooler without a
    // free connection, would block forever. While a query runs, `end` closes the socket and the query fails.
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

/** In one message: no statement of the handler may run without these settings. */
function begin(isPooled: boolean, settles: string | undefined): string {
  const settings = isPooled ? `${localSettings(handlerSettings)}; ` : "";
  const settled = isUuid(settles) ? `set local stint_transaction.settles = '${settles}'; ` : "";
  return `begin; ${settings}${settled}${transactionTime}`;
}

/** For several statements in one message the driver returns an array of results, although its types do not declare it. */
async function lastOf(response: Promise<QueryResult<Row>>): Promise<QueryResult<Row>> {
  const results: unknown = await response;
  return Array.isArray(results) ? (results.at(-1) as QueryResult<Row>) : (results as QueryResult<Row>);
}

const keptAsText = new Set<number>([types.builtins.TIMESTAMPTZ, types.builtins.JSONB]);

const timestamptz: number = types.builtins.TIMESTAMPTZ;

/** Parses times independently of the application's settings of the driver. */
const withTimes: typeof types = {
  ...types,
  getTypeParser: ((oid: number, format?: "text") =>
    oid === timestamptz ? readTime : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
};

/** Parsers for statements with `asText`. */
export const asText: typeof types = {
  ...types,
  getTypeParser: ((oid: number, format?: "text") =>
    keptAsText.has(oid) ? String : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
};
