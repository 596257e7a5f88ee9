import type { AttemptEnd, AttemptTrace, SettledAttempt, Telemetry } from "../model/telemetry.ts";

/** The same telemetry, unable to do harm: whatever it throws is told, and the job goes on as if there were none. */
export function safeTelemetry(telemetry: Telemetry, onError: (error: unknown) => void): Telemetry {
  return {
    async enqueue(jobs, send) {
      let sent: ReturnType<typeof send> | undefined;
      let broken: unknown = new Error("telemetry.enqueue has not called send");
      try {
        // Sent twice, the jobs would be there twice.
        await telemetry.enqueue(jobs, async (trace) => await (sent ??= send(trace)));
      } catch (error) {
        broken = error;
      }
      // What sending gave is the answer, whatever became of it on its way through telemetry.
      if (sent !== undefined) return await sent;
      onError(broken);
      return await send(undefined);
    },
    claimed: (jobs, tookMs, worker) => attempted(() => telemetry.claimed(jobs, tookMs, worker), onError),
    attempt: (job, worker) => {
      try {
        return new SafeAttempt(telemetry.attempt(job, worker), onError);
      } catch (error) {
        onError(error);
        return untraced;
      }
    },
    settled: (attempts, tookMs, worker) =>
      attempted(() => telemetry.settled?.(attempts.map(asTraced), tookMs, worker), onError),
    quietly: (work) => callOnce(work, { run: (once) => telemetry.quietly(once) }, onError),
  };
}

/** Thousands a second are made, so it makes no function for each. */
class SafeAttempt implements AttemptTrace {
  readonly traceId: string | undefined;
  readonly trace: AttemptTrace;
  readonly #onError: (error: unknown) => void;

  constructor(trace: AttemptTrace, onError: (error: unknown) => void) {
    this.traceId = trace.traceId;
    this.trace = trace;
    this.#onError = onError;
  }

  run<T>(work: () => T): T {
    return callOnce(work, this.trace, this.#onError);
  }

  ended(end: AttemptEnd): string | undefined {
    try {
      const first: unknown = this.trace.ended(end);
      return typeof first === "string" ? first : undefined;
    } catch (error) {
      this.#onError(error);
      return undefined;
    }
  }
}

/** The attempt as the telemetry itself made it. */
function asTraced({ job, trace }: SettledAttempt): SettledAttempt {
  return { job, trace: trace instanceof SafeAttempt ? trace.trace : trace };
}

const untraced: AttemptTrace = { traceId: undefined, run: (work) => work(), ended: () => undefined };

/** What `around` does besides the work may fail; the work is done once, and its own failure is the caller's. */
function callOnce<T>(work: () => T, around: Around, onError: (error: unknown) => void): T {
  let began = false;
  let done = false;
  let value: T | undefined;
  try {
    around.run(() => {
      // Done twice, a job would run twice.
      if (done) return value;
      began = true;
      value = work();
      done = true;
      return value;
    });
  } catch (error) {
    if (began && !done) throw error;
    onError(error);
  }
  return done ? (value as T) : work();
}

type Around = { run<T>(work: () => T): T };

function attempted<T>(call: () => T, onError: (error: unknown) => void): T | undefined {
  try {
    return call();
  } catch (error) {
    onError(error);
    return undefined;
  }
}
