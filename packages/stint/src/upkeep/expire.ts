import { expire as expireJobs, nextExpired } from "../sql/expire.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const batch = 1_000;
/** Every idle check reports jobs that expire sooner. */
const restMs = 600_000;
/** A job that another session has locked stays; it is tried again after this. */
const shortestRestMs = 50;

/** Cancels jobs that are too old to run, at the moment they expire. */
export const expire = { name: "expire", idleCheck: nextExpired, create } as const satisfies UpkeepService;

function create({ db, logger, onExpired }: Pick<UpkeepDeps, "db" | "logger" | "onExpired">): RunningService {
  // Sends nothing unless the idle check has found jobs that expire.
  let wanted = false;
  let asked = 0;
  const tick = async (): Promise<number> => {
    if (!wanted) return restMs;
    const before = asked;
    const { expired, nextMs } = await expireJobs(db, batch);
    if (expired.length > 0) onExpired(expired);
    if (expired.length === batch) return 0;
    // An idle check during the statement may have found a job that it did not see.
    wanted = nextMs !== null || asked > before;
    return Math.min(Math.max(nextMs ?? Infinity, shortestRestMs), restMs);
  };
  const service = new Service({ name: "expire", logger, tick });
  return {
    service,
    onIdleCheck: (dueInMs) => {
      if (dueInMs === null) return;
      asked += 1;
      wanted = true;
      service.wakeIn(Math.max(dueInMs, 0));
    },
  };
}
