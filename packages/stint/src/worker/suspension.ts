import { read } from "../model/safe-read.ts";
import type { Suspend } from "../sql/suspend.ts";

/** What a handler waits for when it sleeps or waits for a signal. */
export type Suspension = Omit<Suspend, "fence" | "first">;

/** Recognizes the error of another copy of this module: an application may load Stint twice. */
const mark = Symbol.for("stint.suspended");

/**
 * Thrown by `sleep` and `waitForSignal` to leave the handler, so that its slot is free. The handler is called again when the wait is over, and
 * finds the results of its finished steps. A handler or middleware that catches everything should throw this on; if it does not, the job is
 * suspended all the same when the handler returns. `isSuspended` distinguishes it from a failure.
 */
export class Suspended extends Error {
  override readonly name = "Suspended";
  readonly [mark] = true;
  constructor(
    readonly jobId: string,
    /** The name of the wait among the steps of the job. */
    readonly step: string,
    /** The awaited signal; undefined for a sleep. */
    readonly signal: string | undefined,
  ) {
    super(
      `The handler of job ${jobId} is suspended (${step}) and will be called again. Let this error pass: do nothing else in this attempt.`,
    );
  }
}

/** Whether a handler left by this error to sleep or to wait for a signal: it has not failed. For middleware, and for `catch` blocks. */
export function isSuspended(thrown: unknown): thrown is Suspended {
  return read(thrown, mark) === true;
}
