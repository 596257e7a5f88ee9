import type { Db } from "../db/db.ts";
import { progressOf, type ProgressView } from "../sql/progress.ts";
import { signalsOf, type SignalView } from "../sql/signals.ts";
import { stepsOf, type StepView } from "../sql/steps.ts";
import { withRetry } from "./retry.ts";

/** What a job remembers and reports. */
export type JobSteps = {
  /** The latest 1,000 steps, sleeps and waits, in the order of the handler. */
  readonly steps: readonly StepView[];
  /** Null if its handler reported none. */
  readonly progress: ProgressView | null;
  /** Signals that it has not received yet, oldest first; the first 100. */
  readonly signals: readonly SignalView[];
};

const mostSteps = 1_000;
const mostSignals = 100;

export async function readSteps(db: Db, id: string): Promise<JobSteps> {
  const [steps, progress, signals] = await Promise.all([
    withRetry(db, async (run) => await stepsOf(run, id, mostSteps)),
    withRetry(db, async (run) => await progressOf(run, id)),
    withRetry(db, async (run) => await signalsOf(run, id, mostSignals)),
  ]);
  return { steps, progress: progress ?? null, signals };
}
