import type { Db } from "../db/db.ts";
import { jitter } from "../runtime/sleep.ts";
import { dropOldDays, makePartitionsAhead, pruneDead, pruneSignals, pruneSmall } from "../sql/prune.ts";
import { Service, type ServiceOptions } from "./service.ts";

const everyMs = 600_000;
// As many as nobody may be there to make more: a long weekend.
const daysAhead = 3;
const batch = 5_000;
const betweenBatchesMs = 1_000;

/** Makes tomorrow's partitions and drops the ones that are past their retention. */
export function pruneService(
  db: Db,
  options: { keepDoneMs: number; keepDeadMs: number } & Pick<ServiceOptions, "logger">,
): Service {
  const { keepDoneMs, keepDeadMs, logger } = options;
  const tick = async (): Promise<number> => {
    // Apart, each in its own transaction: creating must not depend on dropping.
    await makePartitionsAhead(db, daysAhead);
    await dropOldDays(db, keepDoneMs);
    const dead = await pruneDead(db, keepDeadMs, batch);
    const others = await pruneSmall(db, { doneMs: keepDoneMs, auditMs: keepDeadMs }, batch);
    const signals = await pruneSignals(db, batch);
    return Math.max(dead, others, signals) === batch ? betweenBatchesMs : jitter(everyMs);
  };
  return new Service({ name: "prune", logger, tick });
}
