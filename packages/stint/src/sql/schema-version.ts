import type { Run } from "../db/db.ts";
import type { ServerClock } from "../db/server-clock.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { columns, number, numberOrNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { SchemaVersionError } from "../errors.ts";
import { command } from "../model/command.ts";

/** The schema this code was written for. A newer one is accepted as long as it still serves this code. */
export const schemaVersion = 43;

const readVersion = statement(
  "schema-version",
  `
  select
    max(version) as version, max(oldest_code) as oldest_code,
    extract(epoch from clock_timestamp())::float8 * 1000 as server_ms
  from stint.migration`,
);

const toVersions = columns<{ version: number | null; oldest_code: number | null; server_ms: number }>({
  version: numberOrNull,
  oldest_code: numberOrNull,
  server_ms: number,
});

/** What to do about a schema that is missing or old, to be followed by "then …". */
export function migrateHint(schema: string): string {
  return `Run \`${command(schema, "migrate")}\``;
}

/** Refuse to work on a schema that is too old, or too new, for this code. Learns what time it is by the database's clock. */
export async function checkSchemaVersion(db: Run & { clock?: ServerClock }, schema: string): Promise<void> {
  let found: { version: number | null; oldest_code: number | null } | undefined;
  try {
    const sentMs = db.clock?.localMs ?? 0;
    const { server_ms: serverMs, ...versions } = await readOne(db, readVersion, [], toVersions);
    found = versions;
    db.clock?.learn(serverMs, sentMs);
  } catch (error) {
    if (dbErrorCategory(error) !== "schema") throw error;
  }
  const version = found?.version ?? undefined;
  if (version === undefined || version < schemaVersion) {
    throw new SchemaVersionError(schema, version, schemaVersion, `${migrateHint(schema)}, then start again.`);
  }
  if ((found?.oldest_code ?? 0) > schemaVersion) {
    throw new SchemaVersionError(
      schema,
      version,
      schemaVersion,
      "Upgrade the stint package of this process: the schema has moved on.",
    );
  }
}
