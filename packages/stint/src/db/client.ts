import { Client, types, type ClientConfig } from "pg";
import { InvalidOptionError } from "../errors.ts";
import { couldNotConnect } from "./connection.ts";
import { firstStatement, type Settings } from "./session-settings.ts";

const readIsoTime = types.getTypeParser(types.builtins.TIMESTAMPTZ);

/** A pooler may share a session whose style of times another client has set: better no time than another day. */
export function readTime(text: string): unknown {
  if (!isIso.test(text))
    throw new InvalidOptionError(
      "database",
      `answers times as "${text}", because the DateStyle of its role is not ISO, and a pooler in between does not keep what is set. ` +
        `Pass prepare: false to createStint, or as an administrator: alter role <name> set datestyle = 'ISO';`,
    );
  return readIsoTime(text);
}
const isIso = /^(?:\d{4,}-|-?infinity)/;

/** A client that reads times exactly, and knows whether its sessions are shared. */
export class ReadingClient extends Client {
  /** A pooler stands between: each transaction may run in another session, which other clients use, too. */
  pooled = false;

  constructor(config?: ClientConfig) {
    super(config);
    this.setTypeParser(types.builtins.TIMESTAMPTZ, readTime);
  }

  /** Process id of its session, if the session is its own. */
  get backend(): number | undefined {
    return this.pooled ? undefined : (this.#loggedIn ?? undefined);
  }

  get #loggedIn(): number | null {
    return (this as unknown as { processID: number | null }).processID;
  }

  /** Set these settings for the whole session if it is ours alone. `assumePooled`: it never is. */
  async firstStatement(settings: Settings = {}, assumePooled = false): Promise<void> {
    const loggedIn = assumePooled ? null : this.#loggedIn;
    const { rows } = await this.query<{ pid: number }>(firstStatement(settings, loggedIn));
    this.pooled = rows[0]?.pid !== loggedIn;
  }
}

/**
 * A connection of its own, outside any pool.
 *
 * @throws {DatabaseUnavailableError} There is none.
 */
export async function openClient(config: ClientConfig): Promise<ReadingClient> {
  const client = new ReadingClient(config);
  // The failing query rejects by itself; without a listener the same loss would end the process.
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
