import { Client, types, type ClientConfig } from "pg";
import { InvalidOptionError } from "../errors.ts";
import { couldNotConnect } from "./connection.ts";
import { firstStatement, type Settings } from "./session-settings.ts";

const readIsoTime = types.getTypeParser(types.builtins.TIMESTAMPTZ);

/** A pooler may share a session whose DateStyle another client has set. An error is better than a wrong date. */
export function readTime(text: string): unknown {
  if (!isIso.test(text))
    throw new InvalidOptionError(
      "database",
      `returns times as "${text}", because the DateStyle of its role is not ISO, and a pooler does not keep session settings. ` +
        `Pass prepare: false to createStint, or as an administrator: alter role <name> set datestyle = 'ISO';`,
    );
  return readIsoTime(text);
}
const isIso = /^(?:\d{4,}-|-?infinity)/;

/** A client that reads times exactly and knows whether its session is shared. */
export class ReadingClient extends Client {
  /** Behind a pooler: each transaction may run in another session, which other clients also use. */
  pooled = false;

  constructor(config?: ClientConfig) {
    super(config);
    this.setTypeParser(types.builtins.TIMESTAMPTZ, readTime);
  }

  /** Process id of the session, if it is not shared. */
  get backend(): number | undefined {
    return this.pooled ? undefined : (this.#loggedIn ?? undefined);
  }

  get #loggedIn(): number | null {
    return (this as unknown as { processID: number | null }).processID;
  }

  /** Apply the settings to the whole session, unless it is shared. `assumePooled`: treat it as shared. */
  async firstStatement(settings: Settings = {}, assumePooled = false): Promise<void> {
    const loggedIn = assumePooled ? null : this.#loggedIn;
    const { rows } = await this.query<{ pid: number }>(firstStatement(settings, loggedIn));
    this.pooled = rows[0]?.pid !== loggedIn;
  }
}

/**
 * Open a single connection outside any pool.
 *
 * @throws {DatabaseUnavailableError} It cannot connect.
 */
export async function openClient(config: ClientConfig): Promise<ReadingClient> {
  const client = new ReadingClient(config);
  // The failing query rejects anyway; without an error listener the lost connection would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.firstStatement();
  } catch (error) {
    void client.end().catch(() => undefined);
    throw couldNotConnect(error);
  }
  return client;
}
