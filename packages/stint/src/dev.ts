/** For development, demos and tests: a real Postgres from npm, and migrations from code. */
export { startEmbedded, type Embedded, type EmbeddedOptions } from "./embedded/embedded.ts";
export type { Connection, ConnectionParts } from "./db/connection.ts";
export { migrate, type MigrateOptions, type Migration } from "./db/migrate.ts";
