import type { Db } from "../db/db.ts";
import { about } from "../runtime/sleep.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { glance, type Glance } from "../sql/glance.ts";
import { Service, type ServiceOptions } from "./service.ts";

/**
 * Looks around for a worker with nothing to do: one statement instead of one for each duty. It is the net under everything
 * that should have been told and was not.
 */
export function glanceService(
  db: Db,
  options: {
    /** The queues to look into: those with room. */
    queues: () => readonly string[];
    kinds: readonly string[];
    everyMs: () => number;
    onGlance: (seen: Glance) => void | Promise<void>;
    onTrouble: (error: unknown) => void;
  } & Pick<ServiceOptions, "logger">,
): Service {
  const { queues, kinds, everyMs, onGlance, onTrouble, logger } = options;
  let since = "-infinity";
  const sweeps = new Sweeps();
  const tick = async (): Promise<number> => {
    try {
      const sentAt = performance.now();
      // The ready jobs of its queues are looked at from the start, which may be far from the first one: a sweep.
      const own = sweeps.inMs(sentAt) === 0 ? queues() : [];
      const seen = await glance(db, { queues: own, kinds, since });
      if (own.length > 0) sweeps.done(sentAt, performance.now());
      await onGlance(seen);
      since = seen.at;
    } catch (error) {
      onTrouble(error);
      throw error;
    }
    return about(everyMs());
  };
  return new Service({ name: "glance", logger, tick });
}
