import { monotonicMs } from "../runtime/monotonic.ts";
import { jitter } from "../runtime/sleep.ts";
import { dropOldDays, makePartitionsAhead, pruneDead, pruneSeries, pruneSmall } from "../sql/prune.ts";
import { pruneSteps } from "../sql/prune-steps.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

const everyMs = 600_000;
const partitionsEveryMs = 300_000;
// Enough for a long weekend during which no worker runs.
const daysAhead = 3;
const batch = 5_000;
const betweenBatchesMs = 1_000;
/** How long after the partitions, about. The first jobs of a new worker need the connections, where each of these statements must be planned. */
const pruneInMs = 1_000;

/** Makes the partitions of the coming days and drops those past their retention. */
export const prune = { name: "prune", create } as const satisfies UpkeepService;

function create({ db, logger, keepDoneMs, keepDeadMs }: UpkeepDeps): RunningService {
  let partitionsAt = -Infinity;
  const tick = async (): Promise<number> => {
    // By itself: creating partitions must not depend on dropping them.
    if (monotonicMs() - partitionsAt > partitionsEveryMs) {
      await makePartitionsAhead(db, daysAhead);
      partitionsAt = monotonicMs();
      return jitter(pruneInMs);
    }
    await dropOldDays(db, keepDoneMs);
    const dead = await pruneDead(db, keepDeadMs, batch);
    const others = await pruneSmall(db, { doneMs: keepDoneMs, auditMs: keepDeadMs }, batch);
    const series = await pruneSeries(db, batch);
    const steps = await pruneSteps(db, keepDoneMs, batch);
    return Math.max(dead, others, series, steps) >= batch ? betweenBatchesMs : jitter(everyMs);
  };
  return { service: new Service({ name: "prune", logger, tick }) };
}
