import { ConnectionLost, type Db } from "../db/db.ts";
import { dbErrorCategory } from "../db/sqlstate.ts";
import { Semaphore } from "../db/semaphore.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import { SeriesDelta } from "../telemetry/series-delta.ts";
import type { Meter } from "../telemetry/meter.ts";
import { runBaselines } from "../telemetry/run-baseline.ts";
import { flush, type Vitals } from "../sql/series.ts";
import { fold } from "../sql/tallies.ts";
import { FlushTiming } from "./flush-timing.ts";
import { Service, type ServiceOptions } from "./service.ts";

/** Of many workers only one folds in this time. */
const foldRestMs = 5_000;

export type TalliesOptions = {
  readonly worker: string;
  readonly meter: Meter;
  readonly kinds: readonly string[];
  readonly vitals: () => Vitals;
  /** What is usual for the kinds of this worker, as of now. */
  readonly onUsual: (usualMs: ReadonlyMap<string, number>) => void;
} & Pick<ServiceOptions, "logger">;

export type Tallies = {
  readonly service: Service;
  /** Somebody said something to the tallies: there is something to fold. */
  readonly toFold: () => void;
  /** Whether all that was counted here has been told. */
  readonly isDone: () => boolean;
  /** Tell what was counted, now. */
  readonly flush: () => Promise<void>;
};

/**
 * Tells the database what this worker counted, and folds what everybody said to the tallies. Sends nothing while nothing
 * happens.
 */
export function talliesService(db: Db, options: TalliesOptions): Tallies {
  const { worker, meter, kinds, vitals, onUsual, logger } = options;
  const delta = new SeriesDelta(meter);
  // A sample reads the heads of the queues, which may be far from their first entries.
  const samples = new Sweeps();
  const timing = new FlushTiming();
  // At first it is not known whose tallies these are: of a restored dump they say nothing here, and a fold sees that.
  let unfolded = true;
  // Something was claimed, given back or ended here: what runs is another than at the last sample, and nobody else would ask for one.
  let moved = false;
  let again = false;

  // One after the other: what is on its way is not told a second time by a worker that stops meanwhile.
  const flushes = new Semaphore(1);

  const flushNow = async (): Promise<void> => await flushes.run(tellSteadily);

  // Where transactions are serializable and nobody could set them otherwise, workers that tell at once fail each other.
  const tellSteadily = async (): Promise<void> => {
    for (let tries = 1; ; tries++) {
      try {
        return await tellAll();
      } catch (error) {
        if (dbErrorCategory(error) !== "contention" || tries >= 5) throw error;
      }
    }
  };

  const tellAll = async (): Promise<void> => {
    const { rows, tenants, markSent } = delta.take();
    if (rows.length === 0 && tenants.length === 0) return;
    unfolded = true;
    moved = true;
    try {
      const { usual, nowMs } = await flush(db, { worker, vitals: vitals(), kinds, rows, tenants });
      markSent();
      timing.setBy(nowMs, performance.now());
      onUsual(runBaselines(usual));
    } catch (error) {
      // It may have arrived. Told again it would count twice, so it counts as told.
      if (error instanceof ConnectionLost) markSent();
      throw error;
    }
  };

  const tick = async (): Promise<number> => {
    await flushNow();
    if (unfolded || again) {
      const hasMoved = moved;
      // Before it: what is said meanwhile is for the next time.
      unfolded = false;
      moved = false;
      const sentAt = performance.now();
      const sample = samples.inMs(sentAt) === 0;
      try {
        const left = (await fold(db, foldRestMs, sample)) === null;
        // Who has just folded may have done it before the claim. If it is left to another a second time, that one has seen it.
        again = !sample || (left && hasMoved);
      } catch (error) {
        // Still to be done. Without the sample, if that was what took too long.
        unfolded = true;
        moved ||= hasMoved;
        throw error;
      } finally {
        if (sample) samples.done(sentAt, performance.now());
      }
    }
    return timing.restMs(performance.now());
  };

  const service = new Service({ name: "tallies", logger, tick });
  return {
    service,
    toFold: () => (unfolded = true),
    isDone: () => !delta.any,
    flush: flushNow,
  };
}
