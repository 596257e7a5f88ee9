import type { Db } from "../db/db.ts";
import { jitter } from "../runtime/sleep.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { idleCheck, type IdleCheck, type IdleCheckInput } from "../sql/idle-check.ts";
import { Service, type ServiceOptions } from "./service.ts";

/**
 * Looks around for a worker with nothing to do: one statement instead of one for each duty. It is the net under everything
 * that should have been told and was not.
 */
export function idleCheckService(
  db: Db,
  options: {
    /** The queues to look into: those with room. */
    queues: () => readonly string[];
    /** Where the queues of large pools are, if there are any: none while they have no room. */
    search: (() => NonNullable<IdleCheckInput["search"]>) | undefined;
    kinds: readonly string[];
    everyMs: () => number;
    onGlance: (seen: IdleCheck) => void | Promise<void>;
    onTrouble: (error: unknown) => void;
  } & Pick<ServiceOptions, "logger">,
): Service {
  const { queues, search, kinds, everyMs, onGlance, onTrouble, logger } = options;
  let since = "-infinity";
  const sweeps = new Sweeps();
  const tick = async (): Promise<number> => {
    try {
      const sentAt = performance.now();
      // The ready jobs of its queues are looked at from the start, which may be far from the first one: a sweep.
      const looks = sweeps.inMs(sentAt) === 0;
      const own = looks ? queues() : [];
      const pools = search?.();
      const input = { queues: own, kinds, since };
      const seen = await idleCheck(
        db,
        pools === undefined ? input : { ...input, search: looks ? pools : { ...pools, ranges: [] } },
      );
      if (own.length > 0 || (looks && pools !== undefined && pools.ranges.length > 0))
        sweeps.done(sentAt, performance.now());
      db.clock.learn(seen.serverMs);
      await onGlance(seen);
      since = seen.at;
    } catch (error) {
      onTrouble(error);
      throw error;
    }
    return jitter(everyMs());
  };
  return new Service({ name: "glance", logger, tick });
}
