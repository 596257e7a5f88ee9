import { jitter } from "../runtime/sleep.ts";
import { nextTokens, tendDependencies } from "../sql/dependencies.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** Tokens of a fast bucket are collected for so long, so that one statement lets in several jobs. */
const shortestRestMs = 5;
const beatenRestMs = 40;
/** The idle check reports work that is due sooner. This rest is the fallback while idle checks fail. */
const longestRestMs = 60_000;

/** Lets in jobs that wait for tokens of a dependency, at the moment the tokens are there, and raises lowered concurrencies. */
export const dependencies = {
  name: "dependencies",
  idleCheck: nextTokens,
  create,
} as const satisfies UpkeepService;

function create({ db, logger, onReady }: Pick<UpkeepDeps, "db" | "logger" | "onReady">): RunningService {
  // Sends nothing while no job waits.
  let isWanted = false;
  let asked = 0;
  const tick = async (): Promise<number> => {
    if (!isWanted) return longestRestMs;
    const before = asked;
    const { queues, nextMs } = await tendDependencies(db);
    onReady(queues);
    // A wake during the statement may be about a job that it did not see: its tick looks again.
    isWanted = nextMs !== null || asked > before;
    // Where another worker was faster, it most likely will be again.
    const shortestMs = queues.length === 0 ? jitter(beatenRestMs) : shortestRestMs;
    return Math.min(Math.max(shortestMs, Math.ceil(nextMs ?? longestRestMs)), longestRestMs);
  };
  const service = new Service({ name: "dependencies", logger, tick });
  const wakeIn = (ms: number): void => {
    asked += 1;
    isWanted = true;
    service.wakeIn(ms);
  };
  return {
    service,
    onWake: () => wakeIn(0),
    onIdleCheck: (dueInMs) => {
      if (dueInMs !== null) wakeIn(Math.max(0, dueInMs));
    },
  };
}
