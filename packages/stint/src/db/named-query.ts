import type { CustomTypesConfig, Query } from "pg";
import { arrayElement } from "./array-element.ts";
import { bindMessage } from "./bind-message.ts";
import type { ReadingClient } from "./client.ts";
import type { Row } from "./db.ts";

type Wire = {
  readonly stream: { readonly writable: boolean; cork(): void; uncork(): void; write(message: Buffer): void };
  readonly parsedStatements: Record<string, string | undefined>;
  readonly submittedNamedStatements: Record<string, string | undefined>;
  parse(message: { text: string; name: string }): void;
  bind(message: { statement: string; values: readonly (string | null)[] }): void;
  describe(message: { type: "P"; name: string }): void;
  execute(message: { portal: string }): void;
  sync(): void;
};

type Field = { readonly name: string; readonly dataTypeID: number };

/** The columns of a statement's result. Postgres refuses a prepared statement whose result would have others. */
type Columns = {
  readonly names: readonly string[];
  readonly readers: readonly ((text: string) => unknown)[];
};

const known = new WeakMap<ReadingClient, Map<string, Columns>>();

export type NamedStatement = {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
  /** Reads the values of the result; undefined: as the client does. */
  readonly types: CustomTypesConfig | undefined;
};

/**
 * A prepared statement of a session that is ours alone. The driver's own query asks the server to describe the result every time, and
 * builds its reader anew. A claim returns twenty columns, so for a single job that was a tenth of what a worker did.
 */
class NamedQuery {
  /** The driver reads these two. */
  readonly name: string;
  readonly text: string;
  readonly #values: readonly (string | null)[];
  readonly #types: CustomTypesConfig | undefined;
  readonly #client: ReadingClient;
  readonly #rows: Row[] = [];
  readonly #resolve: (rows: Row[]) => void;
  readonly #reject: (error: unknown) => void;
  #columns: Columns | undefined;
  #unreadable: { readonly error: unknown } | undefined;

  constructor(
    client: ReadingClient,
    statement: NamedStatement,
    resolve: (rows: Row[]) => void,
    reject: (error: unknown) => void,
  ) {
    this.name = statement.name;
    this.text = statement.text;
    this.#values = statement.values.map(toText);
    this.#types = statement.types;
    this.#client = client;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(wire: Wire): Error | null {
    const { name } = this;
    const isPrepared = (wire.parsedStatements[name] ?? wire.submittedNamedStatements[name]) !== undefined;
    this.#columns = isPrepared ? known.get(this.#client)?.get(name) : undefined;
    if (this.#columns === undefined) this.#submitDescribed(wire, isPrepared);
    else if (wire.stream.writable) wire.stream.write(bindMessage(name, this.#values));
    return null;
  }

  /** The first time on a connection: the result must be described. */
  #submitDescribed(wire: Wire, isPrepared: boolean): void {
    const { name, text } = this;
    // One packet for all messages.
    wire.stream.cork();
    try {
      if (!isPrepared) {
        wire.parse({ text, name });
        wire.submittedNamedStatements[name] = text;
      }
      wire.bind({ statement: name, values: this.#values });
      wire.describe({ type: "P", name: "" });
      wire.execute({ portal: "" });
      wire.sync();
    } finally {
      wire.stream.uncork();
    }
  }

  handleRowDescription({ fields }: { fields: readonly Field[] }): void {
    const client = this.#client;
    const parsers = this.#types ?? client;
    const columns = {
      names: fields.map((field) => field.name),
      readers: fields.map(
        (field) => parsers.getTypeParser(field.dataTypeID, "text") as (text: string) => unknown,
      ),
    };
    let ofClient = known.get(client);
    if (ofClient === undefined) known.set(client, (ofClient = new Map()));
    ofClient.set(this.name, columns);
    this.#columns = columns;
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    const columns = this.#columns;
    if (columns === undefined || this.#unreadable !== undefined) return;
    const { names, readers } = columns;
    const row: Record<string, unknown> = {};
    try {
      for (let index = 0; index < names.length; index++) {
        const text = fields[index] ?? null;
        row[names[index] as string] = text === null ? null : readers[index]?.(text);
      }
      this.#rows.push(row);
    } catch (error) {
      this.#unreadable = { error };
    }
  }

  handleReadyForQuery(): void {
    if (this.#unreadable === undefined) this.#resolve(this.#rows);
    else this.#reject(this.#unreadable.error);
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}
}

/** A parameter as Postgres reads it: lists as arrays, other objects as JSON. */
function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return `{${value.map(toElement).join(",")}}`;
  if (value instanceof Date) return value.toISOString();
  return typeof value === "object" ? JSON.stringify(value) : `${value as number | bigint | boolean}`;
}

function toElement(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (Array.isArray(value)) return `{${value.map(toElement).join(",")}}`;
  return arrayElement(toText(value) as string);
}

/** Run a prepared statement in a session that no pooler shares. */
export function runNamed(client: ReadingClient, statement: NamedStatement): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    client.query(new NamedQuery(client, statement, resolve, reject) as unknown as Query);
  });
}
