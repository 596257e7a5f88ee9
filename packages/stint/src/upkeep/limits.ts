import { limitsInUse, tendLimits } from "../sql/limits.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** How soon to look again at a key that was locked, and at which limits there are. */
const soonMs = 250;
const everyMs = 1_000;
/** How often all keys are looked at: for rows that were deleted by hand, and for jobs far behind others that wait for their other limit. */
const sweepMs = 15_000;
const restMs = 3_600_000;

/**
 * Lets in jobs that wait for a place where the statement that freed it met a lock, and learns which limits there are. A worker whose installation has
 * no limits sends no statement for them.
 */
export const limits = { name: "limits", idleCheck: limitsInUse, create } as const satisfies UpkeepService;

function create({
  db,
  logger,
  worker,
  onLimits,
}: Pick<UpkeepDeps, "db" | "logger" | "worker" | "onLimits">): RunningService {
  let inUse = false;
  /** A wake has come since the last tick began. */
  let isAsked = false;
  let sweptAt = monotonicMs();
  const tick = async (): Promise<number> => {
    if (!inUse) return restMs;
    isAsked = false;
    const at = monotonicMs();
    const isSweep = at - sweptAt >= sweepMs;
    const { more, rules, closedShares } = await tendLimits(db, isSweep, worker.id);
    if (isSweep) sweptAt = at;
    onLimits(rules, closedShares);
    return more ? soonMs : everyMs;
  };
  const service = new Service({ name: "limits", logger, tick });
  const wake = (): void => {
    isAsked = true;
    inUse = true;
    service.wakeIn(0);
  };
  return {
    service,
    onWake: wake,
    onIdleCheck: (dueInMs) => {
      // An idle check that was under way when the first limit was set does not know of it.
      if (dueInMs === null) inUse = isAsked;
      else if (dueInMs === 0 || !inUse) wake();
    },
  };
}
