import { escapeIdentifier } from "pg";
import { openClient, type ReadingClient } from "./client.ts";
import { toClientConfig, type Connection } from "./connection.ts";
import type { Row, Run } from "./db.ts";
import { localSettings, ownSettings } from "./session-settings.ts";
import { forSchema, type Statement } from "./statement.ts";

export type SessionOptions = { connection: Connection; schema: string; applicationName: string };

/** Time limits of one query: for its execution, for one lock, for connecting, and for the response. */
const limits = { statementMs: 5_000, lockMs: 500, connectMs: 5_000, responseMs: 30_000 };

/**
 * A single connection, for callers that depend on which one it is. Each statement runs read-only, within a time limit and in its
 * own transaction, because a pooler may run the next one on another connection.
 */
export class Session implements Run {
  readonly schema: string;
  readonly #client: ReadingClient;
  /** The callbacks of each channel. */
  readonly #onNotification = new Map<string, () => void>();

  private constructor(client: ReadingClient, schema: string) {
    this.#client = client;
    this.schema = schema;
    client.on("notification", ({ channel }) => this.#onNotification.get(channel)?.());
  }

  /** @throws {DatabaseUnavailableError} It cannot connect. */
  static async open({ connection, schema, applicationName }: SessionOptions): Promise<Session> {
    const client = await openClient({
      ...toClientConfig(connection),
      application_name: applicationName,
      connectionTimeoutMillis: limits.connectMs,
      query_timeout: limits.responseMs,
    });
    return new Session(client, schema);
  }

  /** Whether the connection goes through a pooler. */
  get pooled(): boolean {
    return this.#client.pooled;
  }

  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return await this.#rolledBack("begin read only", limits.statementMs, () => this.plain(statement, values));
  }

  /** Run the script, return the rows of the statement, and roll everything back. */
  async afterScript(script: string, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return await this.#rolledBack("begin", limits.statementMs * 4, async () => {
      await this.#client.query(script);
      return await this.plain(statement, values);
    });
  }

  /** Run the statement without an explicit transaction. `name`: prepare it under this name, and reuse it the next time. */
  async plain(statement: Statement, values: readonly unknown[], name?: string): Promise<Row[]> {
    const text = forSchema(statement.text, this.schema);
    const config = { text, values: [...values], ...(name === undefined ? {} : { name }) };
    return (await this.#client.query<Row>(config)).rows;
  }

  /** Keep a server connection busy while another action runs. */
  async holding<T>(work: () => Promise<T>): Promise<T> {
    return await this.#rolledBack("begin read only", limits.statementMs, work);
  }

  async listen(channel: string, onNotification: () => void): Promise<void> {
    this.#onNotification.set(channel, onNotification);
    await this.#client.query(`listen ${escapeIdentifier(channel)}`);
  }

  async end(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  async #rolledBack<T>(begin: string, statementMs: number, work: () => Promise<T>): Promise<T> {
    // In one message: no statement may run without the limits. The search path makes definitions independent of the role.
    await this.#client.query(
      `${begin}; set local statement_timeout = ${statementMs}; set local lock_timeout = ${limits.lockMs}; ` +
        `set local search_path = pg_catalog, pg_temp; ${localSettings(ownSettings)}`,
    );
    try {
      return await work();
    } finally {
      // A lost connection rolls back by itself; the error of this rollback must not hide the first one.
      await this.#client.query("rollback").catch(() => undefined);
    }
  }
}
