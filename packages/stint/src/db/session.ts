import { escapeIdentifier } from "pg";
import { openClient, type ReadingClient } from "./client.ts";
import { toClientConfig, type Connection } from "./connection.ts";
import type { Row, Run } from "./db.ts";
import { localSettings, ownSettings } from "./session-settings.ts";
import { forSchema, type Statement } from "./statement.ts";

export type SessionOptions = { connection: Connection; schema: string; applicationName: string };

/** How long the server may work on one question, and wait for one lock. */
const limits = { statementMs: 5_000, lockMs: 500, connectMs: 5_000, answerMs: 30_000 };

/**
 * One connection, for whoever must know which one it is. Each statement runs read-only, within a time limit and in a
 * transaction of its own, because a pooler may put the next one on another connection.
 */
export class Session implements Run {
  readonly schema: string;
  readonly #client: ReadingClient;
  /** How many times each channel was heard. */
  readonly #heard = new Map<string, () => void>();

  private constructor(client: ReadingClient, schema: string) {
    this.#client = client;
    this.schema = schema;
    client.on("notification", ({ channel }) => this.#heard.get(channel)?.());
  }

  /** @throws {DatabaseUnavailableError} There is no connection. */
  static async open({ connection, schema, applicationName }: SessionOptions): Promise<Session> {
    const client = await openClient({
      ...toClientConfig(connection),
      application_name: applicationName,
      connectionTimeoutMillis: limits.connectMs,
      query_timeout: limits.answerMs,
    });
    return new Session(client, schema);
  }

  /** Whether a pooler stands between. */
  get pooled(): boolean {
    return this.#client.pooled;
  }

  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return await this.#rolledBack("begin read only", limits.statementMs, () => this.plain(statement, values));
  }

  /** What the statement answers after the script ran, of which nothing stays. */
  async afterScript(script: string, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return await this.#rolledBack("begin", limits.statementMs * 4, async () => {
      await this.#client.query(script);
      return await this.plain(statement, values);
    });
  }

  /** Outside any transaction but its own. `name`: prepared under it, and only run the next time. */
  async plain(statement: Statement, values: readonly unknown[], name?: string): Promise<Row[]> {
    const text = forSchema(statement.text, this.schema);
    const config = { text, values: [...values], ...(name === undefined ? {} : { name }) };
    return (await this.#client.query<Row>(config)).rows;
  }

  /** Keep a connection of the server busy while something else is tried. */
  async holding<T>(work: () => Promise<T>): Promise<T> {
    return await this.#rolledBack("begin read only", limits.statementMs, work);
  }

  async listen(channel: string, onHeard: () => void): Promise<void> {
    this.#heard.set(channel, onHeard);
    await this.#client.query(`listen ${escapeIdentifier(channel)}`);
  }

  async end(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  async #rolledBack<T>(begin: string, statementMs: number, work: () => Promise<T>): Promise<T> {
    // In one message: nothing may run without its limits. The path makes definitions read the same for everybody.
    await this.#client.query(
      `${begin}; set local statement_timeout = ${statementMs}; set local lock_timeout = ${limits.lockMs}; ` +
        `set local search_path = pg_catalog, pg_temp; ${localSettings(ownSettings)}`,
    );
    try {
      return await work();
    } finally {
      // A connection that is gone has rolled back by itself; failing to say so must not hide why.
      await this.#client.query("rollback").catch(() => undefined);
    }
  }
}
