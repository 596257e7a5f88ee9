import { jitter } from "../runtime/sleep.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { nextDue, promote as promoteJobs } from "../sql/promote.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const batch = 1_000;
const shortestRestMs = 1;
const beatenRestMs = 40;
/** The idle check reports jobs that are due sooner. This rest is the fallback while idle checks fail. */
const restWithoutCheckMs = 60_000;

/** Makes due jobs ready, at the moment they are due. */
export const promote = {
  name: "promote",
  idleCheck: nextDue,
  create,
} as const satisfies UpkeepService;

function create({ db, logger, onPromoted }: UpkeepDeps): RunningService {
  let expected = false;
  let since: string | undefined;
  const sweeps = new Sweeps();
  const tick = async (): Promise<number> => {
    const sentAt = performance.now();
    const sweep = since === undefined || sweeps.inMs(sentAt) === 0;
    const { promoted, queues, nextDueMs, at } = await promoteJobs(db, batch, sweep ? undefined : since);
    if (sweep) sweeps.done(sentAt, performance.now());
    // All jobs that were due by then are ready, unless there were more than one batch.
    if (promoted < batch) since = at;
    if (promoted > 0) onPromoted(queues, promoted);
    if (promoted === batch) return 0;
    // Where another worker was faster, it most likely will be again: not every worker of a fleet need wake for every due time.
    const shortestMs = promoted === 0 && expected ? jitter(beatenRestMs) : shortestRestMs;
    const restMs = Math.max(shortestMs, Math.min(nextDueMs ?? Infinity, restWithoutCheckMs));
    expected = restMs === nextDueMs;
    return restMs;
  };
  const service = new Service({ name: "promote", logger, tick });
  return {
    service,
    onIdleCheckFailed: () => service.wakeIn(0),
  };
}
