import { anyPause, knownPauses, liftPaused } from "../sql/pauses.ts";
import { readWhileWanted } from "./read-while-wanted.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** How often to read the pauses while there are any: a notification of a change may be lost. */
const whilePausedMs = 1_000;
const batch = 1_000;

/** Reports to the worker what is paused, and makes jobs of pauses that are over ready again. */
export const pauses = { name: "pauses", idleCheck: anyPause, create } as const satisfies UpkeepService;

function create({
  db,
  logger,
  onPauses,
  onPromoted,
}: Pick<UpkeepDeps, "db" | "logger" | "onPauses" | "onPromoted">): RunningService {
  const read = async (): Promise<number | null> => {
    const known = await knownPauses(db);
    const inForce = known.filter(({ leftMs }) => leftMs === null || leftMs > 0);
    onPauses(inForce);
    let isLeft = inForce.length > 0;
    if (inForce.length < known.length) {
      const { queues, more } = await liftPaused(db, batch);
      if (queues.length > 0) onPromoted(queues);
      if (more) isLeft = true;
      // Full batches follow one another at once; rows that another session has locked are tried again later.
      if (more && queues.length > 0) return 0;
    }
    const endsInMs = Math.min(...inForce.map(({ leftMs }) => leftMs ?? Infinity));
    return isLeft ? Math.min(whilePausedMs, Math.ceil(endsInMs)) : null;
  };
  return readWhileWanted({ name: "pauses", logger, read });
}
