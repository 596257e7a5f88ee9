import type { Db } from "../db/db.ts";
import { unserved, type Unserved } from "../sql/kinds.ts";
import { beat, forgetSilentWorkers, registerWorker, type WorkerInfo } from "../sql/workers.ts";
import { about, Service, type ServiceOptions } from "./service.ts";

const everyMs = 10_000;
const silentMs = 60_000;
const unservedAfterMs = 10_000;

export type Presence = {
  readonly worker: WorkerInfo;
  readonly hears: () => boolean;
  readonly draining: () => boolean;
  readonly onUnserved: (kinds: readonly Unserved[]) => void;
};

/** Says that this worker lives, forgets those that no longer do, and notices jobs that nobody serves. */
export function presenceService(db: Db, presence: Presence & Pick<ServiceOptions, "logger">): Service {
  let ticks = 0;
  const tick = async (): Promise<number> => {
    const { worker, hears, draining } = presence;
    if (!(await beat(db, worker.id, hears(), draining()))) {
      await registerWorker(db, worker);
      await beat(db, worker.id, hears(), draining());
    }
    if (ticks++ % 6 === 1) {
      await forgetSilentWorkers(db, silentMs);
      const kinds = await unserved(db, unservedAfterMs);
      if (kinds.length > 0) presence.onUnserved(kinds);
    }
    return about(everyMs);
  };
  return new Service({ name: "presence", logger: presence.logger, tick });
}
