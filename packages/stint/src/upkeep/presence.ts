import { jitter } from "../runtime/sleep.ts";
import { unserved } from "../sql/kinds.ts";
import { forgetUnresponsiveWorkers, registerWorker } from "../sql/workers.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** Enqueuers treat a worker as gone after a minute without a heartbeat; this interval tolerates one lost heartbeat. */
const everyMs = 25_000;
const forgetAfterMs = 120_000;
const unservedAfterMs = 10_000;

/** Sends the worker's heartbeat, deletes the rows of workers that stopped responding, and reports kinds that no worker serves. */
export const presence = { name: "presence", create } as const satisfies UpkeepService;

function create({
  db,
  logger,
  worker,
  saveState,
  onUnserved,
}: Pick<UpkeepDeps, "db" | "logger" | "worker" | "saveState" | "onUnserved">): RunningService {
  let ticks = 0;
  const tick = async (): Promise<number> => {
    if (!(await saveState())) {
      await registerWorker(db, worker);
      await saveState();
    }
    ticks += 1;
    if (ticks % 12 === 2) await forgetUnresponsiveWorkers(db, forgetAfterMs);
    if (ticks % 3 === 2) {
      const kinds = await unserved(db, unservedAfterMs);
      if (kinds.length > 0) onUnserved(kinds);
    }
    // The second tick comes sooner: a person who has just started a worker wants to know which kinds it does not serve.
    return jitter(ticks === 1 ? unservedAfterMs : everyMs);
  };
  return { service: new Service({ name: "presence", logger, tick }) };
}
