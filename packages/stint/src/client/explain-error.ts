import { codeOf, dbErrorCategory } from "../db/sqlstate.ts";
import { SchemaVersionError } from "../errors.ts";
import { migrateHint, schemaVersion } from "../sql/schema-version.ts";

/** A missing table or function becomes a SchemaVersionError that names the command to run. Other errors stay as they are. */
export function explainError(error: unknown, schema: string): unknown {
  if (dbErrorCategory(driverError(error)) !== "schema") return error;
  const missing = new SchemaVersionError(
    schema,
    undefined,
    schemaVersion,
    `${migrateHint(schema)}, then try again.`,
  );
  missing.cause = error;
  return missing;
}

/** The driver's error inside the error of a query builder. */
export function driverError(error: unknown): unknown {
  const cause: unknown = (error as { cause?: unknown } | null | undefined)?.cause;
  return codeOf(error) === undefined && codeOf(cause) !== undefined ? cause : error;
}
