import { Query, type ClientBase, type QueryConfig, type QueryResult } from "pg";
import type { Row } from "./db.ts";

/** The driver's end of the wire, as far as a query writes to it. */
type Wire = {
  parse(message: { text: string }): void;
  bind(message: object): void;
  execute(message: { portal: string }): void;
  sync(): void;
};

/** What the driver calls on a query of its own. Its published types leave these methods out. */
type DriverQuery = {
  readonly portal: string;
  callback: (error: Error | null | undefined, result: QueryResult<Row>) => void;
  requiresPreparation(): boolean;
  prepare(wire: Wire): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, wire: Wire): void;
};

const BaseQuery = Query as unknown as new (config: QueryConfig) => DriverQuery;

/** Begin and the settings come before the statement. */
const completedBefore = 2;

/**
 * One statement in a transaction with settings of its own, in a single round trip: begin, settings, statement and commit go out
 * together, and the server skips the rest after an error. Nothing of it stays in the session, which others may share.
 */
class LocalQuery extends BaseQuery {
  readonly #settings: string;
  #completed = 0;

  constructor(config: QueryConfig, settings: string) {
    super(config);
    this.#settings = settings;
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
    send(wire, "commit");
    wire.sync();
  }

  override handleDataRow(message: unknown): void {
    if (this.#isStatement()) super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, wire: Wire): void {
    if (this.#isStatement()) super.handleCommandComplete(message, wire);
    this.#completed += 1;
  }

  /** Whether the statement itself is being answered, and not what surrounds it. */
  #isStatement(): boolean {
    return this.#completed === completedBefore;
  }
}

function send(wire: Wire, text: string): void {
  wire.parse({ text });
  wire.bind({});
  wire.execute({ portal: "" });
}

/** Native clients have no such wire. */
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
 * Run one statement with settings that hold for it alone. After an error the transaction is still open: roll it back before the
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
