import { StoppingError } from "../errors.ts";
import { settledWithin } from "../runtime/sleep.ts";
import type { StopFigures } from "../sql/workers.ts";
import type { StopReport } from "./events.ts";
import type { WorkerParts } from "./assemble.ts";
import { released } from "./verdict.ts";

/** How long each step may take beyond `drain` and `abort`: to record and release, to end the loops, to delete the worker's row. */
const recordWithinMs = 2_000;
const endWithinMs = 1_000;
/** How long a stop takes beyond `drain` and `abort` at most, while the database does not respond. */
export const longestEndMs = recordWithinMs + 2 * endWithinMs;

export type StopInput = {
  readonly drainMs: number;
  readonly abortMs: number;
  /** Cuts the drain short. */
  readonly hurry: AbortSignal;
  /** The start of the worker, if it began. A start under way would begin what a stop ends. */
  readonly started: Promise<void> | undefined;
  /** The claim loop, once it runs. Resolves when nothing more will be claimed. */
  readonly looping: () => Promise<void> | undefined;
};

/**
 * Stop a worker, in order: let attempts finish for `drainMs`, ask the rest to stop and wait `abortMs`, release what is left with no
 * attempt spent, end every loop. Takes no longer than that while the database is unavailable.
 */
export async function stopWorker(parts: WorkerParts, input: StopInput): Promise<Omit<StopReport, "ms">> {
  const stoppedAt = performance.now();
  const { attempts } = parts.pipeline;
  const before = { ended: attempts.ended, released: releasedBy(parts) };
  await drain(parts, input);
  const releasedNow = await releaseUndecided(parts, input);
  const figures = {
    drained: attempts.ended - before.ended,
    released: releasedBy(parts) - before.released + releasedNow,
  };
  await end(parts, input, { ...figures, ms: performance.now() - stoppedAt });
  return { worker: parts.id, ...figures };
}

function releasedBy({ pipeline, releaser }: WorkerParts): number {
  return pipeline.attempts.released + releaser.count;
}

async function drain(parts: WorkerParts, input: StopInput): Promise<void> {
  const drained = nothingRuns(parts, input);
  if (await settledWithin(input.drainMs, drained, input.hurry)) return;
  parts.pipeline.interruptAll(new StoppingError());
  await settledWithin(input.abortMs, drained);
}

/** Resolves when nothing runs and nothing more can come. */
async function nothingRuns({ logger, pipeline, row }: WorkerParts, input: StopInput): Promise<void> {
  await input.started?.catch(() => undefined);
  const looping = input.looping();
  if (looping !== undefined)
    void logged(
      logger,
      row.update(() => ({ listening: false, draining: true })),
    );
  // A job that never began need not be waited for.
  pipeline.releaseWaiting();
  // A claim under way still returns its jobs; they are waited for or released like the others.
  await looping;
  pipeline.releaseWaiting();
  await pipeline.idle();
}

/** Release what did not end, with no attempt spent. Returns how many. */
async function releaseUndecided(parts: WorkerParts, { looping }: StopInput): Promise<number> {
  const { logger, pipeline, releaser, claimer, settler, stepWriter, progressWriter, notifyReady } = parts;
  const undecided = pipeline.releaseUndecided();
  let count = 0;
  const recorded = settler.releaseAll(undecided.map(released)).then((results) => {
    count = results.filter((result) => result === "settled" || result === "cancelled").length;
    notifyReady(undecided.map(({ queue }) => queue));
  });
  // Wait for a claim under way and its jobs, too: left to its lease, each would count a crash.
  const claimed = looping()?.then(() => {
    pipeline.releaseWaiting();
    return Promise.all([releaser.idle(), claimer.idle()]);
  });
  await settledWithin(recordWithinMs, Promise.all([logged(logger, recorded), settler.idle(), claimed]));
  settler.end();
  stepWriter.end();
  progressWriter.end();
  return count;
}

/** End every loop, and whatever else would keep the process alive. */
async function end(parts: WorkerParts, { looping }: StopInput, figures: StopFigures): Promise<void> {
  const { logger, sleepMode, releaser, claimer, loopLag, upkeep, listener, leases, isolated, row, shares } =
    parts;
  isolated.end();
  sleepMode.end();
  releaser.end();
  claimer.end();
  loopLag.stop();
  const ended = Promise.all([upkeep.stop(), listener?.stop()]);
  await Promise.all([settledWithin(endWithinMs, ended), leases.stop()]);
  if (looping() === undefined) return;
  // After the loops: while they run, they write a deleted row again.
  const left = Promise.all([upkeep.flush(), shares.leave(), row.stopped(figures)]);
  await settledWithin(endWithinMs, logged(logger, left));
}

async function logged(logger: WorkerParts["logger"], work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => logger.warn({ err: error }, "stopping: the database did not respond"));
}
