import { randomBytes } from "node:crypto";
import { Client, type QueryResultRow } from "pg";
import { inject } from "vitest";

/** The Postgres of this run. */
export function testDatabaseUrl(): string {
  return inject("databaseUrl");
}

/**
 * A schema name nobody else uses.
 *
 * STINT_TEST_SCHEMA_PREFIX changes how they begin, so that the suite can be run again under other names.
 */
export function freshSchemaName(): string {
  const prefix = process.env["STINT_TEST_SCHEMA_PREFIX"] ?? "test_";
  if (!/^[a-z_][a-z0-9_]{0,24}$/.test(prefix)) {
    throw new Error(`STINT_TEST_SCHEMA_PREFIX is "${prefix}"; it must match ^[a-z_][a-z0-9_]{0,24}$`);
  }
  return `${prefix}${randomBytes(8).toString("hex")}`;
}

/** A connection of the test's own. Whoever takes it ends it. */
export async function adminClient(url = testDatabaseUrl()): Promise<Client> {
  const client = new Client({ connectionString: url, application_name: "stint-test-admin" });
  // A test that stops the server would otherwise be ended by this client's error event.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

/** Run one statement on a connection of its own. */
export async function query<Row extends QueryResultRow = QueryResultRow>(
  text: string,
  values: readonly unknown[] = [],
  url = testDatabaseUrl(),
): Promise<Row[]> {
  const client = await adminClient(url);
  try {
    const { rows } = await client.query<Row>(text, [...values]);
    return rows;
  } finally {
    await client.end();
  }
}
