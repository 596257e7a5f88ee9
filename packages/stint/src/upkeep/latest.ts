import { liftMissedLatest, missedLatest } from "../sql/latest.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const whileOpenMs = 1_000;
const restMs = 600_000;

/** Lifts jobs of `dedupe: { replace }` that an end and a rollback at the same time left waiting. */
export const latest = { name: "latest", idleCheck: missedLatest, create } as const satisfies UpkeepService;

function create({ db, logger }: UpkeepDeps): RunningService {
  // Sends nothing unless the idle check has found such jobs.
  let found = false;
  const tick = async (): Promise<number> => {
    if (found) found = (await liftMissedLatest(db)) > 0;
    return found ? whileOpenMs : restMs;
  };
  const service = new Service({ name: "latest", logger, tick });
  return {
    service,
    onWake: () => {
      found = true;
      service.wakeIn(0);
    },
  };
}
