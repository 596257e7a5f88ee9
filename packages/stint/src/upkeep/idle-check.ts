import type { Db, Run } from "../db/db.ts";
import type { Logger } from "../runtime/logger.ts";
import { jitter } from "../runtime/sleep.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import type { IdleCheck, IdleCheckInput } from "../sql/idle-check.ts";
import { Service } from "./service-loop.ts";

export type IdleCheckOptions = {
  readonly logger: Logger;
  readonly check: (db: Run, input: IdleCheckInput) => Promise<IdleCheck>;
  /** The queues of this worker that have room. */
  readonly queues: () => readonly string[];
  /** Where the queues of its large pools are, none while they have no room; undefined if it has no such pool. */
  readonly search: (() => NonNullable<IdleCheckInput["search"]>) | undefined;
  readonly kinds: readonly string[];
  /** How long until the next check, about. */
  readonly everyMs: () => number;
  readonly onChecked: (seen: IdleCheck) => void | Promise<void>;
  readonly onFailed: (error: unknown) => void;
};

/**
 * Checks for a worker without work whether there is some: one statement for the claim loop and all upkeep services. It is the safety net under
 * lost notifications.
 */
export function idleCheckService(db: Db, options: IdleCheckOptions): Service {
  const { check, queues, search, kinds, everyMs, onChecked, onFailed, logger } = options;
  let since = "-infinity";
  const sweeps = new Sweeps();
  const tick = async (): Promise<number> => {
    try {
      const sentAt = performance.now();
      // Ready jobs are looked for from the start of each queue, which may be far from the first live entry: a sweep.
      const sweep = sweeps.inMs(sentAt) === 0;
      const own = sweep ? queues() : [];
      const pools = search?.();
      const sentMs = db.clock.localMs;
      const input = { queues: own, kinds, since };
      const seen = await check(
        db,
        pools === undefined ? input : { ...input, search: sweep ? pools : { ...pools, ranges: [] } },
      );
      if (own.length > 0 || (sweep && pools !== undefined && pools.ranges.length > 0))
        sweeps.done(sentAt, performance.now());
      db.clock.learn(seen.serverMs, sentMs);
      await onChecked(seen);
      since = seen.at;
    } catch (error) {
      onFailed(error);
      throw error;
    }
    return jitter(everyMs());
  };
  return new Service({ name: "idle-check", logger, tick });
}
