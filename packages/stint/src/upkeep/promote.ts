import type { Db } from "../db/db.ts";
import { jitter } from "../runtime/sleep.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { promote } from "../sql/promote.ts";
import { Service, type ServiceOptions } from "./service.ts";

const batch = 1_000;
const shortestRestMs = 1;
const beatenRestMs = 40;
/** Whoever looks around says when a job is due sooner than was known; this is for want of that. */
const untoldMs = 60_000;

/** Makes due jobs ready, at the moment they are due. */
export function promoteService(
  db: Db,
  options: {
    onPromoted: (queues: readonly string[]) => void;
  } & Pick<ServiceOptions, "logger">,
): Service {
  let expected = false;
  let since: string | undefined;
  const sweeps = new Sweeps();
  const tick = async (): Promise<number> => {
    const sentAt = performance.now();
    const sweep = since === undefined || sweeps.inMs(sentAt) === 0;
    const { promoted, queues, nextDueMs, at } = await promote(db, batch, sweep ? undefined : since);
    if (sweep) sweeps.done(sentAt, performance.now());
    // What was due until then is ready, unless there was more of it than one batch.
    if (promoted < batch) since = at;
    if (promoted > 0) options.onPromoted(queues);
    if (promoted === batch) return 0;
    // Where another worker was quicker, it most likely will be again: a fleet need not wake for every due time.
    const shortestMs = promoted === 0 && expected ? jitter(beatenRestMs) : shortestRestMs;
    const restMs = Math.max(shortestMs, Math.min(nextDueMs ?? Infinity, untoldMs));
    expected = restMs === nextDueMs;
    return restMs;
  };
  return new Service({ name: "promote", logger: options.logger, tick });
}
