import type { Suspend } from "../sql/suspend.ts";

/** What a handler waits for when it sleeps or waits for a signal. */
export type Suspension = Omit<Suspend, "fence" | "first">;

/**
 * Thrown by `sleep` and `waitForSignal` to leave the handler, so that its slot is free. The handler is called again when the wait is over, and
 * finds the results of its finished steps. A handler that catches everything should throw this on; if it does not, the job is suspended all
 * the same when the handler returns.
 */
export class Suspended extends Error {
  override readonly name = "Suspended";
  constructor(job: string, name: string) {
    super(
      `The handler of job ${job} is suspended (${name}) and will be called again. Let this error pass: do nothing else in this attempt.`,
    );
  }
}
