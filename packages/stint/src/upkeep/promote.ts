import type { Db } from "../db/db.ts";
import { promote } from "../sql/promote.ts";
import { Service, type ServiceOptions } from "./service.ts";

const batch = 1_000;
const shortestRestMs = 1;

/** Makes due jobs ready, at the moment they are due. */
export function promoteService(
  db: Db,
  options: {
    onPromoted: () => void;
    /** Not every scheduled job is told of: look at least this often. */
    longestRestMs: () => number;
  } & Pick<ServiceOptions, "logger">,
): Service {
  let expected = false;
  const tick = async (): Promise<number> => {
    const { promoted, nextDueMs } = await promote(db, batch);
    // Also when another worker was quicker: it tells only its own loop.
    if (promoted > 0 || expected) options.onPromoted();
    expected = nextDueMs !== null && nextDueMs <= options.longestRestMs();
    if (promoted === batch) return 0;
    return Math.max(shortestRestMs, Math.min(nextDueMs ?? Infinity, options.longestRestMs()));
  };
  return new Service({ name: "promote", logger: options.logger, tick });
}
