import type { PgDb } from "../db/pg.ts";
import { inspectJobs, type JobsInspector } from "./jobs.ts";
import { inspectOperations, type OperationsInspector, type Tell } from "./operations.ts";
import { inspectSignals, type SignalsInspector } from "./signals.ts";
import type { Inspector } from "./types.ts";

/** Put together from its three parts; each asks on the same connections. */
export function makeInspector(db: PgDb, tell: Tell, onClose?: () => void): Inspector {
  let closing: Promise<void> | undefined;
  const signals: SignalsInspector = inspectSignals(db);
  const jobs: JobsInspector = inspectJobs(db, signals);
  const operations: OperationsInspector = inspectOperations(db, tell);
  return {
    schema: db.schema,
    ...signals,
    ...jobs,
    ...operations,
    close: async () => {
      // Its owner and the client it was made from may both close it.
      closing ??= operations
        .stop()
        .then(async () => await db.close())
        .finally(() => onClose?.());
      await closing;
    },
  };
}
