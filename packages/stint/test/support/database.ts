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

/** Connections that `query` is done with for now, by their URL. */
const kept = new Map<string, Client[]>();

/** Run one statement, on a connection that nobody else has meanwhile. Kept for the next one: opening it costs more than most statements. */
export async function query<Row extends QueryResultRow = QueryResultRow>(
  text: string,
  values: readonly unknown[] = [],
  url = testDatabaseUrl(),
): Promise<Row[]> {
  const client = kept.get(url)?.pop() ?? (await openKept(url));
  try {
    const { rows } = await client.query<Row>(text, [...values]);
    kept.set(url, [...(kept.get(url) ?? []), client]);
    return rows;
  } catch (error) {
    // It may be gone, or inside a transaction that failed.
    await client.end().catch(() => undefined);
    throw error;
  }
}

async function openKept(url: string): Promise<Client> {
  // Not named as ours are: tests count and end those.
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
