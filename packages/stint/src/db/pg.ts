import { Pool, types, type ClientBase, type PoolClient, type QueryConfig, type QueryResult } from "pg";
import { DatabaseUnavailableError, InvalidOptionError } from "../errors.ts";
import { maskUrl } from "../runtime/mask.ts";
import { ownSettings, ReadingClient } from "./client.ts";
import { couldNotConnect, toClientConfig, type Connection } from "./connection.ts";
import { ConnectionLost, type Db, type Row, type Run, type RunOptions, type Tx } from "./db.ts";
import { ServerClock } from "./server-clock.ts";
import { codeOf, troubleOf } from "./sqlstate.ts";
import { forSchema, type Statement } from "./statement.ts";
import { Turnstile } from "./turnstile.ts";

export type PgDbOptions = {
  connection: Connection;
  schema: string;
  /** Connections for the library's own statements. Never lent to handlers. */
  connections: number;
  /** Connections for handlers' transactions, opened only when asked for. */
  transactions: number;
  applicationName: string;
  /** Named prepared statements. Off behind a pooler that cannot carry them. */
  prepare: boolean;
  deadlineMs: number;
  /** How long the server may work on one statement, for questions that must never hold it up. */
  statementTimeoutMs?: number;
  connectDeadlineMs: number;
  /** Shared by those who use the same server. */
  clock?: ServerClock;
  onError: (error: Error) => void;
};

/** `Db` on node-postgres. The only pools the library has. */
export class PgDb implements Db {
  readonly schema: string;
  readonly clock: ServerClock;
  readonly #options: PgDbOptions;
  readonly #own: Pool;
  readonly #turnstile: Turnstile;
  #transactions: Pool | undefined;
  readonly #texts = new Map<Statement, string>();

  constructor(options: PgDbOptions) {
    this.schema = options.schema;
    this.clock = options.clock ?? new ServerClock();
    this.#options = options;
    // Not behind a pooler that shares its connections: what is set there stays set for others.
    const settings = options.prepare ? ownSettings : undefined;
    this.#own = openPool(options, options.connections, settings);
    this.#turnstile = new Turnstile(options.transactions);
  }

  async run(statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> {
    return await runOn(await this.#connect(this.#own), async (client) => {
      return await this.#send(client, statement, values, options);
    });
  }

  async transaction<T>(work: (tx: Tx & Run) => Promise<T>): Promise<T> {
    const pool = (this.#transactions ??= openPool(this.#options, this.#options.transactions));
    // In line for a connection, not in the pool: there the wait would count against the time to connect, and handlers
    // that hold theirs for long would fail the others.
    return await this.#turnstile.pass(async () => await this.#transact(pool, work));
  }

  async #transact<T>(pool: Pool, work: (tx: Tx & Run) => Promise<T>): Promise<T> {
    return await runOn(await this.#connect(pool), async (client) => {
      let over = false;
      const query = async (text: string, values: readonly unknown[] = []): Promise<{ rows: Row[] }> => {
        // By now the connection may serve another job's transaction.
        if (over) throw new InvalidOptionError("tx.query", "was called after its transaction had ended");
        return { rows: (await client.query<Row>(text, [...values])).rows };
      };
      const run = (statement: Statement, values: readonly unknown[], options?: RunOptions): Promise<Row[]> =>
        this.#send(client, statement, values, options);

      await this.#control(client, "begin");
      try {
        const result = await work({ query, run, client });
        over = true;
        await this.#control(client, "commit");
        return result;
      } catch (error) {
        over = true;
        // A connection that is gone has rolled back by itself; saying so must not hide why.
        if (!(error instanceof ConnectionLost))
          await this.#control(client, "rollback").catch(() => undefined);
        throw error;
      }
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#own.end(), this.#transactions?.end()]);
  }

  async #connect(pool: Pool): Promise<PoolClient> {
    try {
      return await pool.connect();
    } catch (error) {
      throw couldNotConnect(error);
    }
  }

  async #send(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    options: RunOptions | undefined,
  ): Promise<Row[]> {
    let text = this.#texts.get(statement);
    if (text === undefined) this.#texts.set(statement, (text = forSchema(statement.text, this.schema)));
    const config: QueryConfig = { text, values: [...values] };
    if (statement.asText) config.types = asText;
    if (this.#options.prepare) config.name = `${this.schema}.${statement.name}`;
    return await answered(
      client,
      client.query<Row>(config),
      statement.name,
      options?.deadlineMs ?? this.#options.deadlineMs,
    ).catch((error: unknown) => {
      this.clock.learnFrom(error);
      throw error;
    });
  }

  /** Under the deadline too. A commit that is given up on may still happen, which is what ConnectionLost says. */
  async #control(client: PoolClient, text: "begin" | "commit" | "rollback"): Promise<void> {
    await answered(client, client.query<Row>(text), text, this.#options.deadlineMs);
  }
}

const keptAsText = new Set<number>([types.builtins.TIMESTAMPTZ, types.builtins.JSONB]);

/** How the driver reads the answers of statements that want text. */
export const asText: typeof types = {
  ...types,
  getTypeParser: ((oid: number, format?: "text") =>
    keptAsText.has(oid) ? String : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
};

function openPool(options: PgDbOptions, max: number, settings?: string): Pool {
  const pool = new Pool({
    ...toClientConfig(options.connection),
    max,
    Client: ReadingClient,
    // Before anybody gets the connection, and once for its life.
    onConnect: setting(settings, options.connectDeadlineMs),
    application_name: options.applicationName,
    // Not behind a pooler that shares its connections: it refuses what would stay set for others.
    ...(options.statementTimeoutMs === undefined || !options.prepare
      ? {}
      : { statement_timeout: options.statementTimeoutMs }),
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

/** The pool waits for its answer, though its types do not say so. */
function setting(settings: string | undefined, deadlineMs: number): (client: ClientBase) => unknown {
  return async (client) => {
    if (!(client instanceof ReadingClient)) return;
    // The pool's own limit ends with the login. A server that freezes right after it, or a pooler that has no connection to spare,
    // would be waited for without end. While a query is under way `end` closes the socket, and the query fails.
    const timer = setTimeout(() => void client.end().catch(() => undefined), deadlineMs);
    try {
      await (settings === undefined ? client.readTimes() : client.query(settings));
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Gives the client back when the work is done, or away for good when its connection can no longer be trusted. */
async function runOn<T>(client: PoolClient, work: (client: PoolClient) => Promise<T>): Promise<T> {
  try {
    return await work(client);
  } catch (error) {
    if (troubleOf(error) === "connection") spoilt.add(client);
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
): Promise<Row[]> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const deadline = new Promise<never>((_, reject) => {
      const giveUp = (): void => reject(new ConnectionLost(`${name}: no answer within ${deadlineMs} ms`));
      // An event loop that stood still sees its overdue timers first. One more turn reads an answer that has long come;
      // throwing away the answer of a claim would leave its jobs to nobody.
      timer = setTimeout(() => setImmediate(giveUp), deadlineMs);
    });
    const { rows } = await Promise.race([answer, deadline]);
    if (unreplicated.delete(client))
      throw new ConnectionLost(`${name}: the wait for the standby was cancelled`);
    return rows;
  } catch (error) {
    answer.catch(() => undefined);
    if (error instanceof ConnectionLost || troubleOf(error) === "connection") spoilt.add(client);
    if (codeOf(error) === "25006") throw new DatabaseUnavailableError("it is read-only", { cause: error });
    if (troubleOf(error) === "connection")
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
