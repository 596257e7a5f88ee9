import type { Db } from "../db/db.ts";
import { rescue, type Rescued } from "../sql/rescue.ts";
import { about, Service, type ServiceOptions } from "./service.ts";

const batch = 200;
/** A lease thread gives a renewal five seconds, and tries again after two at most. */
const holdersRenewWithinMs = 8_000;

/**
 * Takes back jobs whose lease ran out. Pages until none is left, so that no full page can hide the rest.
 *
 * When the database comes back after an outage, every lease has run out and nobody has died. Their holders renew at once; so
 * the first look after trouble, and the first of all, only sees that the database answers, and the rescue rests once more.
 */
export function rescueService(
  db: Db,
  options: { everyMs: number; maxCrashes: number; onRescued: (jobs: readonly Rescued[]) => void } & Pick<
    ServiceOptions,
    "logger"
  >,
): Service {
  const { everyMs, maxCrashes, onRescued, logger } = options;
  let restMs: number | undefined = everyMs;
  const tick = async (): Promise<number> => {
    const quietMs = restMs;
    // Until this one is answered, the next is the first after trouble.
    restMs = Math.max(everyMs, holdersRenewWithinMs);
    const jobs = await rescue(db, { limit: quietMs === undefined ? batch : 0, maxCrashes });
    restMs = undefined;
    if (jobs.length > 0) onRescued(jobs);
    return jobs.length === batch ? 0 : (quietMs ?? about(everyMs));
  };
  return new Service({ name: "rescue", logger, tick });
}
