import { deliver as deliverSignals, undelivered } from "../sql/signals.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const batch = 1_000;
/** How soon to try again after the row of a job was locked. */
const lockedMs = 25;
/** Wakes and idle checks report signals; nothing is sent without them. */
const restMs = 3_600_000;

/** Makes jobs ready whose signal has arrived. The transaction that sends a signal only stores it. */
export const deliver = {
  name: "deliver",
  idleCheck: undelivered,
  create,
} as const satisfies UpkeepService;

function create({ db, logger, onPromoted }: UpkeepDeps): RunningService {
  // A worker whose installation has no signals sends no statement for them.
  let isDue = false;
  const tick = async (): Promise<number> => {
    if (!isDue) return restMs;
    // Before the statement: a wake that arrives while it runs must count.
    isDue = false;
    try {
      const { found, delivered, queues } = await deliverSignals(db, batch);
      if (queues.length > 0) onPromoted(queues);
      isDue ||= delivered < found || found === batch;
      return delivered < found ? lockedMs : found === batch ? 0 : restMs;
    } catch (error) {
      isDue = true;
      throw error;
    }
  };
  const service = new Service({ name: "deliver", logger, tick });
  return {
    service,
    onWake: () => {
      isDue = true;
      service.wakeIn(0);
    },
  };
}
