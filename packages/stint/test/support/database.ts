import { randomBytes } from "node:crypto";
import { Client, type QueryResultRow } from "pg";
import { inject } from "vitest";

/** The Postgres of this run. */
export function testDatabaseUrl(): string {
  return inject("databaseUrl");
}

/**
 * A schema name that no other test uses. It begins with an underscore, which sorts differently in each collation and is a wildcard of LIKE, and
 * has a word of SQL in it: every test is a test of odd names. STINT_TEST_SCHEMA_PREFIX gives them another beginning.
 */
export function freshSchemaName(): string {
  const prefix = process.env["STINT_TEST_SCHEMA_PREFIX"] ?? "_order_";
  if (!/^[a-z_][a-z0-9_]{0,24}$/.test(prefix)) {
    throw new Error(`STINT_TEST_SCHEMA_PREFIX is "${prefix}"; it must match ^[a-z_][a-z0-9_]{0,24}$`);
  }
  return `${prefix}${randomBytes(8).toString("hex")}`;
}

/** A separate connection for a test. The caller must end it. */
export async function adminClient(url = testDatabaseUrl()): Promise<Client> {
  const client = new Client({ connectionString: url, application_name: "stint-test-admin" });
  // Without a listener, this client's error event would end a test that stops the server.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

/** Idle connections of `query`, by URL. */
const kept = new Map<string, Client[]>();

/**
 * Runs one statement on a connection of its own. The connection is kept for the next one: opening it costs more than most statements.
 * A statement with a name is prepared under that name.
 */
export async function query<Row extends QueryResultRow = QueryResultRow>(
  text: string,
  values: readonly unknown[] = [],
  url = testDatabaseUrl(),
  name?: string,
): Promise<Row[]> {
  const client = kept.get(url)?.pop() ?? (await openKept(url));
  try {
    const { rows } = await client.query<Row>({
      text,
      values: [...values],
      ...(name === undefined ? {} : { name }),
    });
    kept.set(url, [...(kept.get(url) ?? []), client]);
    return rows;
  } catch (error) {
    // The connection may be lost, or inside a failed transaction.
    await client.end().catch(() => undefined);
    throw error;
  }
}

async function openKept(url: string): Promise<Client> {
  // Without Stint's application_name: tests count and end connections by that name.
  const client = new Client({ connectionString: url, application_name: "kept by a test" });
  client.on("error", () => undefined);
  client.once("end", () => {
    kept.set(
      url,
      (kept.get(url) ?? []).filter((other) => other !== client),
    );
  });
  await client.connect();
  return client;
}
