import { codeOf, dbErrorCategory } from "../db/sqlstate.ts";
import {
  BatchClosedError,
  JobNotFoundError,
  QueueFullError,
  SchemaVersionError,
  type StintError,
} from "../errors.ts";
import { queueFullCode } from "../sql/admission.ts";
import { migrateHint, schemaVersion } from "../sql/schema-version.ts";

/**
 * A missing table or function becomes a SchemaVersionError that names the command to run, a refusal of a function of the schema the error of its
 * name. Other errors stay as they are.
 */
export function explainError(error: unknown, schema: string): unknown {
  const known = refusals.get(codeOf(driverError(error)));
  if (known !== undefined) {
    const refusal = known((driverError(error) as { detail?: string }).detail ?? "unknown");
    refusal.cause = error;
    return refusal;
  }
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

/** Errors that functions of the schema raise, made from their detail. */
const refusals = new Map<string | undefined, (id: string) => StintError>([
  ["ST003", (id) => new JobNotFoundError(id)],
  ["ST004", (id) => new BatchClosedError(id)],
  [queueFullCode, queueFull],
]);

function queueFull(detail: string): QueueFullError {
  type Detail = { queue: string; tenant?: string; depth: number; ageMs: number; retryAfterMs: number };
  const { queue, tenant, depth, ageMs, retryAfterMs } = JSON.parse(detail) as Detail;
  return new QueueFullError(queue, depth, ageMs, retryAfterMs, tenant);
}

/** The driver's error inside the error of a query builder. */
export function driverError(error: unknown): unknown {
  const cause: unknown = (error as { cause?: unknown } | null | undefined)?.cause;
  return codeOf(error) === undefined && codeOf(cause) !== undefined ? cause : error;
}
