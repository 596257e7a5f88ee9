import type { Db } from "../db/db.ts";
import { promote } from "../sql/promote.ts";
import { about, Service, type ServiceOptions } from "./service.ts";

const batch = 1_000;
const shortestRestMs = 1;
const beatenRestMs = 40;

/** Makes due jobs ready, at the moment they are due. */
export function promoteService(
  db: Db,
  options: {
    onPromoted: (queues: readonly string[]) => void;
    /** Not every scheduled job is told of: look at least this often. */
    longestRestMs: () => number;
  } & Pick<ServiceOptions, "logger">,
): Service {
  let expected = false;
  const tick = async (): Promise<number> => {
    const { promoted, queues, nextDueMs } = await promote(db, batch);
    if (promoted > 0) options.onPromoted(queues);
    if (promoted === batch) return 0;
    // Where another worker was quicker, it most likely will be again: a fleet need not wake for every due time.
    const shortestMs = promoted === 0 && expected ? about(beatenRestMs) : shortestRestMs;
    const restMs = Math.max(shortestMs, Math.min(nextDueMs ?? Infinity, options.longestRestMs()));
    expected = restMs === nextDueMs;
    return restMs;
  };
  return new Service({ name: "promote", logger: options.logger, tick });
}
