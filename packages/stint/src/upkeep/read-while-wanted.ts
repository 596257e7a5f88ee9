import type { Logger } from "../runtime/logger.ts";
import { Service } from "./service-loop.ts";
import type { RunningService } from "./upkeep-service.ts";

export type WantedReads = {
  readonly name: string;
  readonly logger: Logger;
  /** Read and act. Returns the milliseconds until the next read; null: nothing is left to read. */
  readonly read: () => Promise<number | null>;
};

const restMs = 3_600_000;

/** A service that sends no statement until a wake or the idle check reports that there is something to read. */
export function readWhileWanted({ name, logger, read }: WantedReads): RunningService {
  let wanted = false;
  let asked = 0;
  const tick = async (): Promise<number> => {
    if (!wanted) return restMs;
    const before = asked;
    const nextMs = await read();
    // A wake during the read may be about a change that the read did not see: its tick reads again.
    wanted = nextMs !== null || asked > before;
    return nextMs ?? restMs;
  };
  const service = new Service({ name, logger, tick });
  const ask = (): void => {
    asked += 1;
    wanted = true;
    service.wakeIn(0);
  };
  return {
    service,
    onWake: ask,
    onIdleCheck: (dueInMs) => {
      if (dueInMs !== null && !wanted) ask();
    },
  };
}
