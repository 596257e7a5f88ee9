import { Query, type ClientBase, type QueryConfig, type QueryResult } from "pg";
import type { Row } from "./db.ts";

/** The methods of the driver's connection that a query calls. */
type Wire = {
  parse(message: { text: string }): void;
  bind(message: object): void;
  execute(message: { portal: string }): void;
  sync(): void;
};

/** The methods that the driver calls on a query. Its published types omit them. */
type DriverQuery = {
  readonly portal: string;
  callback: (error: Error | null | undefined, result: QueryResult<Row>) => void;
  requiresPreparation(): boolean;
  prepare(wire: Wire): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, wire: Wire): void;
};

const BaseQuery = Query as unknown as new (config: QueryConfig) => DriverQuery;

/** The results of `begin` and of the settings come before the statement's. */
const completedBefore = 2;

/**
 * One statement in its own transaction with its own settings, in a single round trip: begin, settings, statement and commit are
 * sent together, and the server skips the rest after an error. Nothing stays in the session, which other clients may share.
 */
class LocalQuery extends BaseQuery {
  readonly #settings: string;
  /** The comment that begins our statements. In pg_stat_activity it then shows also while the statement is committed. */
  readonly #mark: string;
  #completed = 0;

  constructor(config: QueryConfig, settings: string) {
    super(config);
    this.#settings = settings;
    this.#mark = /^\/\* [\w:-]+ \*\/ /.exec(config.text)?.[0] ?? "";
  }

  /** Several statements and values need the extended protocol. */
  override requiresPreparation(): boolean {
    return true;
  }

  override prepare(wire: Wire): void {
    send(wire, "begin isolation level read committed");
    send(wire, this.#settings);
    super.prepare(wire);
  }

  /** Called by the driver once the statement is bound. */
  _getRows(wire: Wire): void {
    wire.execute({ portal: this.portal });
    send(wire, `${this.#mark}commit`);
    wire.sync();
  }

  override handleDataRow(message: unknown): void {
    if (this.#isStatement()) super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, wire: Wire): void {
    if (this.#isStatement()) super.handleCommandComplete(message, wire);
    this.#completed += 1;
  }

  /** Whether the current messages belong to the statement, not to begin, settings or commit. */
  #isStatement(): boolean {
    return this.#completed === completedBefore;
  }
}

function send(wire: Wire, text: string): void {
  wire.parse({ text });
  wire.bind({});
  wire.execute({ portal: "" });
}

/** Native clients (pg-native) have no protocol connection. */
function hasWire(client: ClientBase): boolean {
  return typeof (client as { connection?: { parse?: unknown } }).connection?.parse === "function";
}

async function runStepwise(
  client: ClientBase,
  config: QueryConfig,
  settings: string,
): Promise<QueryResult<Row>> {
  await client.query("begin isolation level read committed");
  await client.query(settings);
  const result = await client.query<Row>(config);
  await client.query("commit");
  return result;
}

/**
 * Run one statement with settings for this statement only. After an error the transaction is still open: roll it back before the
 * client is used again.
 */
export async function runLocally(
  client: ClientBase,
  config: QueryConfig,
  settings: string,
): Promise<QueryResult<Row>> {
  if (!hasWire(client)) return await runStepwise(client, config, settings);
  return await new Promise((resolve, reject) => {
    const query = new LocalQuery(config, settings);
    query.callback = (error, result) => (error == null ? resolve(result) : reject(error));
    client.query(query as unknown as Query);
  });
}
