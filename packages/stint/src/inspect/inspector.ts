import type { PgDb } from "../db/pg.ts";
import { inspectFlows } from "./flows.ts";
import { inspectJobs, type JobsInspector } from "./jobs.ts";
import { inspectOperations, type OperationsInspector, type Wake } from "./operations.ts";
import { inspectOverview, type OverviewInspector } from "./overview.ts";
import { inspectSchedules } from "./schedules.ts";
import type { Inspector } from "./types.ts";

/** Combines the parts of the inspector, which share connections. */
export function makeInspector(db: PgDb, wake: Wake, onClose?: () => void): Inspector {
  let closing: Promise<void> | undefined;
  const overview: OverviewInspector = inspectOverview(db);
  const jobs: JobsInspector = inspectJobs(db, overview);
  const operations: OperationsInspector = inspectOperations(db, wake);
  return {
    schema: db.schema,
    ...overview,
    ...jobs,
    ...operations,
    ...inspectSchedules(db),
    ...inspectFlows(db),
    close: async () => {
      // Both the caller and the client that made it may close it.
      closing ??= operations
        .stop()
        .then(async () => await db.close())
        .finally(() => onClose?.());
      await closing;
    },
  };
}
