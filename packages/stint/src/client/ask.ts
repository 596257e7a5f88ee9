import { ConnectionLost, type Db } from "../db/db.ts";
import { codeOf, dbErrorCategory } from "../db/sqlstate.ts";
import { DatabaseUnavailableError, SchemaVersionError, UnknownOutcomeError } from "../errors.ts";
import { Recovery } from "../runtime/recovery.ts";
import { sleep } from "../runtime/sleep.ts";
import { migrateHint, schemaVersion } from "../sql/schema-version.ts";

const tries = 3;

/** Ask the database something. A question may be asked twice, so an answer lost on the way is asked for again. */
export async function ask<T>(db: Db, question: (db: Db) => Promise<T>): Promise<T> {
  const recovery = new Recovery();
  for (let left = tries; ; left--) {
    try {
      return await question(db);
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw explain(error, db.schema);
      if (left === 1) throw new DatabaseUnavailableError(error.message, { cause: error });
      await sleep(recovery.next());
    }
  }
}

/** Change one job. Sent once: whether it happened when the answer is lost is for the caller to find out. */
export async function act<T>(
  db: Db,
  action: string,
  jobId: string,
  deed: (db: Db) => Promise<T>,
): Promise<T> {
  try {
    return await deed(db);
  } catch (error) {
    if (error instanceof ConnectionLost) throw new UnknownOutcomeError(action, [jobId], { cause: error });
    throw explain(error, db.schema);
  }
}

/** A missing table means one thing to whoever meets it: the schema is not installed. */
export function explain(error: unknown, schema: string): unknown {
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

/** Query builders wrap the driver's error in one of their own. */
export function driverError(error: unknown): unknown {
  const cause: unknown = (error as { cause?: unknown } | null | undefined)?.cause;
  return codeOf(error) === undefined && codeOf(cause) !== undefined ? cause : error;
}
