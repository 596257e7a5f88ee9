import { admissionInUse, tendAdmission, type AdmittedPlace } from "../sql/admission.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** How often one of the workers takes samples, which no enqueue can do while the queue refuses all of them. */
const everyMs = 5_000;
const restMs = 3_600_000;
/** Rows of ended jobs that one statement looks at. */
const batch = 1_000;

/**
 * Notes since when queues are full, and deletes the rows of tenants whose jobs have ended. An installation without admission settings sends no
 * statement for it.
 */
export const admission = {
  name: "admission",
  idleCheck: admissionInUse,
  create,
} as const satisfies UpkeepService;

function create({ db, logger }: Pick<UpkeepDeps, "db" | "logger">): RunningService {
  let inUse = false;
  let after: AdmittedPlace | null = null;
  const tick = async (): Promise<number> => {
    if (!inUse) return restMs;
    after = await tendAdmission(db, after, batch, everyMs - 1_000);
    return everyMs;
  };
  const service = new Service({ name: "admission", logger, tick });
  return {
    service,
    onIdleCheck: (dueInMs) => {
      const was = inUse;
      inUse = dueInMs !== null;
      if (inUse && !was) service.wakeIn(0);
    },
  };
}
