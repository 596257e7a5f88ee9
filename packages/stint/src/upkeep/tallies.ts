import { ConnectionLost } from "../db/db.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { Semaphore } from "../db/semaphore.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { SeriesDelta } from "../telemetry/series-delta.ts";
import { runBaselines } from "../telemetry/run-baseline.ts";
import { flush } from "../sql/series.ts";
import { fold, unfolded as unfoldedPart } from "../sql/tallies.ts";
import { FlushTiming } from "./flush-timing.ts";
import { Service } from "./service-loop.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** Only one of all workers folds within this time. */
const foldRestMs = 5_000;

type Tallies = Required<Omit<RunningService, "onIdleCheckFailed" | "onWake">>;

/** Flushes this worker's counters to the series, and folds the deltas of all workers into the tallies. Sends nothing while idle. */
export const tallies = {
  name: "tallies",
  idleCheck: unfoldedPart,
  create,
} as const satisfies UpkeepService;

function create({
  db,
  logger,
  worker,
  meter,
  vitals,
  onRunBaseline,
}: Pick<UpkeepDeps, "db" | "logger" | "worker" | "meter" | "vitals" | "onRunBaseline">): Tallies {
  const delta = new SeriesDelta(meter);
  // A sample reads the heads of the queues, which may be far from their first entries.
  const samples = new Sweeps();
  const timing = new FlushTiming();
  // How often to try a fold. 1 at start: after a restore from a dump the tallies belong to another database, which only a fold detects.
  let foldsDue = 1;

  // One at a time: a worker that stops meanwhile must not send again what is on its way.
  const flushes = new Semaphore(1);

  const flushNow = async (): Promise<void> => await flushes.run(flushWithRetry);

  // Where the server forces serializable transactions, concurrent flushes of several workers fail each other.
  const flushWithRetry = async (): Promise<void> => {
    for (let tries = 1; ; tries++) {
      try {
        return await flushOnce();
      } catch (error) {
        if (dbErrorCategory(error) !== "contention" || tries >= 5) throw error;
      }
    }
  };

  const flushOnce = async (): Promise<void> => {
    const { rows, tenants, markSent } = delta.take();
    if (rows.length === 0 && tenants.length === 0) return;
    // Twice: claims and releases of this worker insert no delta, and the last fold of another worker may predate them.
    foldsDue = 2;
    try {
      const { runs, nowMs } = await flush(db, {
        worker: worker.id,
        vitals: vitals(),
        kinds: worker.kinds,
        rows,
        tenants,
      });
      markSent();
      timing.setBy(nowMs, performance.now());
      onRunBaseline(runBaselines(runs));
    } catch (error) {
      // It may have been committed. Sent again it would count twice, so it counts as sent.
      if (error instanceof ConnectionLost) markSent();
      throw error;
    }
  };

  const tick = async (): Promise<number> => {
    await flushNow();
    const due = foldsDue;
    if (due > 0) {
      // Reset before the fold: deltas that are written meanwhile are for the next fold.
      foldsDue = 0;
      const sentAt = performance.now();
      const sample = samples.inMs(sentAt) === 0;
      try {
        const leftToAnother = (await fold(db, foldRestMs, sample)) === null;
        const left = leftToAnother ? due - 1 : 0;
        foldsDue = Math.max(foldsDue, sample ? left : 1);
      } catch (error) {
        // Retried, without the sample if the sample took too long.
        foldsDue = Math.max(foldsDue, due);
        throw error;
      } finally {
        if (sample) samples.done(sentAt, performance.now());
      }
    }
    return timing.restMs(performance.now());
  };

  return {
    service: new Service({ name: "tallies", logger, tick }),
    onIdleCheck: (dueInMs) => {
      if (dueInMs !== null) foldsDue = Math.max(foldsDue, 1);
    },
    isDone: () => !delta.any,
    flush: flushNow,
  };
}
