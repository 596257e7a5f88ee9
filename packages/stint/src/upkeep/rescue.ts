import { isTooLate } from "../db/server-clock.ts";
import { isUnavailable } from "../db/transient.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { nextExpiry, rescue as rescueJobs } from "../sql/rescue.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const batch = 200;
/** A lease thread gives a renewal five seconds, and retries after two at most. */
const holdersRenewWithinMs = 8_000;
/** The idle check reports when the next lease runs out. This rest is the fallback while idle checks fail. */
const restWithoutCheckMs = 60_000;
/** Workers that see the same lease run out should not all try to rescue its job at once. */
const spreadMs = 200;

/**
 * Takes back jobs whose lease ran out. Pages until none is left, so that no full page can hide the rest.
 *
 * When the database comes back after an outage, every lease has run out although no worker has died. Their holders renew at once. So the
 * first statement after an outage, and the first of all, only checks that the database responds, and the rescue rests once more.
 */
export const rescue = {
  name: "rescue",
  idleCheck: nextExpiry,
  create,
} as const satisfies UpkeepService;

function create({ db, logger, rescueEveryMs, maxCrashes, onRescued }: UpkeepDeps): RunningService {
  let quietMs: number | undefined = rescueEveryMs;
  let quietUntil = 0;
  /** Whether leases that ran out have been looked for since the start and the last outage. */
  let looked = false;
  let refusals = 0;
  /** Leases that ran out before this time of the database's clock were reported by an idle check. */
  let checkedAt: string | undefined;
  let since: string | undefined;
  const sweeps = new Sweeps();
  const outage = (): void => {
    looked = false;
    quietMs = Math.max(rescueEveryMs, holdersRenewWithinMs);
  };
  const tick = async (): Promise<number> => {
    const leftMs = quietUntil - performance.now();
    if (leftMs > 0 && quietMs === undefined) return leftMs;
    const restMs = quietMs;
    // If this statement fails, the next one is the first after an outage.
    outage();
    const sentAt = performance.now();
    const sweep = since === undefined || sweeps.inMs(sentAt) === 0;
    const next = checkedAt;
    const limit = restMs === undefined ? batch : 0;
    const until = db.clock.deadline(refusals);
    const jobs = await rescueJobs(db, { limit, maxCrashes, since: sweep ? undefined : since, until }).catch(
      (error: unknown) => {
        if (isTooLate(error)) refusals += 1;
        throw error;
      },
    );
    refusals = 0;
    if (sweep && limit > 0) sweeps.done(sentAt, performance.now());
    if (limit > 0 && jobs.length < batch) since = next;
    quietMs = undefined;
    if (restMs !== undefined) {
      quietUntil = performance.now() + restMs;
      return restMs;
    }
    looked = jobs.length < batch;
    if (jobs.length > 0) onRescued(jobs);
    return jobs.length === batch ? 0 : restWithoutCheckMs;
  };
  const service = new Service({ name: "rescue", logger, tick });
  return {
    service,
    onIdleCheck: (expiresInMs, at) => {
      checkedAt = at;
      if (expiresInMs !== null) service.wakeIn(Math.max(expiresInMs, 0) + spreadMs * Math.random());
    },
    // Only if no worker could reach the database: then leases run out although their holders live.
    onIdleCheckFailed: (error) => {
      if (isUnavailable(error)) outage();
    },
    // A lease that ran out before the last idle check is not reported again.
    isDone: () => looked,
  };
}
