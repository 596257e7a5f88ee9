import { Client, types, type ClientConfig } from "pg";
import { InvalidOptionError } from "../errors.ts";
import { couldNotConnect } from "./connection.ts";

/** A parameter of the session, as the server tells of it when a connection begins and whenever it changes. */
type Told = { readonly parameterName: string; readonly parameterValue: string };

const readIsoTime = types.getTypeParser(types.builtins.TIMESTAMPTZ);

/** Where a pooler gives everybody any connection, whatever was set on it: better no time than another day. */
function readTime(text: string): unknown {
  if (!isIso.test(text))
    throw new InvalidOptionError(
      "database",
      `answers times as "${text}", because the DateStyle of its role is not ISO, and a pooler in between does not keep what is set. ` +
        `As an administrator: alter role <name> set datestyle = 'ISO';`,
    );
  return readIsoTime(text);
}
const isIso = /^(?:\d{4,}-|-?infinity)/;

/** A client that knows whether it can read what the server says. */
export class ReadingClient extends Client {
  #dateStyle = "ISO";

  constructor(config?: ClientConfig) {
    super(config);
    this.setTypeParser(types.builtins.TIMESTAMPTZ, readTime);
    this.connection.on("parameterStatus", ({ parameterName, parameterValue }: Told) => {
      if (parameterName === "DateStyle") this.#dateStyle = parameterValue;
    });
  }

  /**
   * The driver reads times in ISO style only; from any other it makes no time at all, or another day. A role or a database may have
   * another for its default. Sends nothing where that is not so. Poolers keep it for whoever has set it, as they keep no other.
   */
  async readTimes(): Promise<void> {
    if (!this.#dateStyle.startsWith("ISO")) await this.query("set datestyle = 'ISO'");
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
    await client.readTimes();
  } catch (error) {
    void client.end().catch(() => undefined);
    throw couldNotConnect(error);
  }
  return client;
}

/**
 * What our own statements rely on, whatever the defaults of the role and the database are: times in one style and a zone without
 * summer, in which their texts sort as they do; numbers with all their digits; texts and arrays as they are written; each
 * statement seeing what was committed before it. Not for transactions of handlers, where the defaults are their owner's wish.
 */
export const ownSettings = `/* stint:settings */ select ${Object.entries({
  datestyle: "ISO",
  timezone: "UTC",
  extra_float_digits: "1",
  array_nulls: "on",
  standard_conforming_strings: "on",
  default_transaction_isolation: "read committed",
})
  .map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', false)`)
  .join(", ")}`;
