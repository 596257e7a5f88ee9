import type { Db } from "../db/db.ts";
import { isTooLate } from "../db/server-clock.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { rescue, type Rescued } from "../sql/rescue.ts";
import { Service, type ServiceOptions } from "./service.ts";

const batch = 200;
/** A lease thread gives a renewal five seconds, and tries again after two at most. */
const holdersRenewWithinMs = 8_000;
/** Whoever looks around says when a lease runs out; this is for want of that. */
const untoldMs = 60_000;

export type Rescue = {
  readonly service: Service;
  /** The database did not answer, to this duty or to another. */
  readonly troubled: () => void;
  /** Leases that ran out before this moment of the database's clock have been seen, and told of. */
  readonly seenBy: (at: string) => void;
  /** Whether leases that ran out have been looked for since the start and the last trouble. */
  readonly hasLooked: () => boolean;
};

/**
 * Takes back jobs whose lease ran out. Pages until none is left, so that no full page can hide the rest.
 *
 * When the database comes back after an outage, every lease has run out and nobody has died. Their holders renew at once; so
 * the first look after trouble, and the first of all, only sees that the database answers, and the rescue rests once more.
 */
export function rescueService(
  db: Db,
  options: { restMs: number; maxCrashes: number; onRescued: (jobs: readonly Rescued[]) => void } & Pick<
    ServiceOptions,
    "logger"
  >,
): Rescue {
  const { maxCrashes, onRescued, logger } = options;
  let restMs: number | undefined = options.restMs;
  let restUntil = 0;
  let looked = false;
  let refusals = 0;
  let seenBy: string | undefined;
  let since: string | undefined;
  const sweeps = new Sweeps();
  const troubled = (): void => {
    looked = false;
    restMs = Math.max(options.restMs, holdersRenewWithinMs);
  };
  const tick = async (): Promise<number> => {
    const leftMs = restUntil - performance.now();
    if (leftMs > 0 && restMs === undefined) return leftMs;
    const quietMs = restMs;
    // Until this one is answered, the next is the first after trouble.
    troubled();
    const sentAt = performance.now();
    const sweep = since === undefined || sweeps.inMs(sentAt) === 0;
    const next = seenBy;
    const limit = quietMs === undefined ? batch : 0;
    const until = db.clock.deadline(refusals);
    const jobs = await rescue(db, { limit, maxCrashes, since: sweep ? undefined : since, until }).catch(
      (error: unknown) => {
        if (isTooLate(error)) refusals += 1;
        throw error;
      },
    );
    refusals = 0;
    if (sweep && limit > 0) sweeps.done(sentAt, performance.now());
    if (limit > 0 && jobs.length < batch) since = next;
    restMs = undefined;
    if (quietMs !== undefined) {
      restUntil = performance.now() + quietMs;
      return quietMs;
    }
    looked = jobs.length < batch;
    if (jobs.length > 0) onRescued(jobs);
    return jobs.length === batch ? 0 : untoldMs;
  };
  return {
    service: new Service({ name: "rescue", logger, tick }),
    troubled,
    seenBy: (at) => (seenBy = at),
    hasLooked: () => looked,
  };
}
