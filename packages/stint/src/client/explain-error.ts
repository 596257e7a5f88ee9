import { codeOf, dbErrorCategory } from "../db/sqlstate.ts";
import {
  BatchClosedError,
  InvalidOptionError,
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

/** Whether a function of the schema refused a row: other rows of the statement may be fine. */
export function isRefusal(error: unknown): boolean {
  return refusals.has(codeOf(driverError((error as { cause?: unknown } | null | undefined)?.cause)));
}

/** Errors that functions of the schema raise, made from their detail. */
const refusals = new Map<string | undefined, (id: string) => StintError>([
  ["ST003", (id) => new JobNotFoundError(id)],
  ["ST004", (id) => new BatchClosedError(id)],
  ["ST007", (circle) => new InvalidOptionError("after", circle)],
  [queueFullCode, queueFull],
]);

function queueFull(detail: string): QueueFullError {
  type Detail = {
    queue: string;
    tenant?: string;
    depth: number;
    ageMs: number;
    retryAfterMs: number;
    dependency?: string;
    delayMs?: number;
  };
  const full = JSON.parse(detail) as Detail;
  const { queue, tenant, depth, ageMs, retryAfterMs, dependency, delayMs } = full;
  return new QueueFullError(queue, depth, ageMs, retryAfterMs, tenant, dependency, delayMs);
}

/** The driver's error inside the error of a query builder. */
export function driverError(error: unknown): unknown {
  const cause: unknown = (error as { cause?: unknown } | null | undefined)?.cause;
  return codeOf(error) === undefined && codeOf(cause) !== undefined ? cause : error;
}
