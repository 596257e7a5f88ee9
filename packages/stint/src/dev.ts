/** For development, demos and tests: a real Postgres without installing one, and a schema that migrates itself. */
export { startEmbedded, type Embedded, type EmbeddedOptions } from "./embedded/embedded.ts";
export type { Connection, ConnectionParts } from "./db/connection.ts";
export { migrate, type MigrateOptions, type Migration } from "./db/migrate.ts";
