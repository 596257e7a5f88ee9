import type { Db } from "../db/db.ts";
import { jitter } from "../runtime/sleep.ts";
import { unserved, type Unserved } from "../sql/kinds.ts";
import { forgetSilentWorkers, registerWorker, type WorkerInfo } from "../sql/workers.ts";
import { Service, type ServiceOptions } from "./service.ts";

/** Enqueuers take a worker for gone after a minute; this leaves room for one beat that is lost. */
const everyMs = 25_000;
const silentMs = 120_000;
const unservedAfterMs = 10_000;

export type Presence = {
  readonly worker: WorkerInfo;
  /** Say how it is. False: its row is gone. */
  readonly say: () => Promise<boolean>;
  readonly onUnserved: (kinds: readonly Unserved[]) => void;
};

/** Says that this worker lives, forgets those that no longer do, and notices jobs that nobody serves. */
export function presenceService(db: Db, presence: Presence & Pick<ServiceOptions, "logger">): Service {
  let ticks = 0;
  const tick = async (): Promise<number> => {
    const { worker, say } = presence;
    if (!(await say())) {
      await registerWorker(db, worker);
      await say();
    }
    ticks += 1;
    if (ticks % 12 === 2) await forgetSilentWorkers(db, silentMs);
    if (ticks % 3 === 2) {
      const kinds = await unserved(db, unservedAfterMs);
      if (kinds.length > 0) presence.onUnserved(kinds);
    }
    // The second comes sooner: whoever has just started wants to know what is not served.
    return jitter(ticks === 1 ? unservedAfterMs : everyMs);
  };
  return new Service({ name: "presence", logger: presence.logger, tick });
}
