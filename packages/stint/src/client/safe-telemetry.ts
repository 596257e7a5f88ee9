import type { AttemptEnd, AttemptTrace, SettledAttempt, Telemetry } from "../model/telemetry.ts";

/** Wraps telemetry so that it cannot affect jobs: its errors are reported, and the job continues without it. */
export function safeTelemetry(telemetry: Telemetry, onError: (error: unknown) => void): Telemetry {
  return {
    async enqueue(jobs, send) {
      let sent: ReturnType<typeof send> | undefined;
      let broken: unknown = new Error("telemetry.enqueue has not called send");
      try {
        // A second send would create the jobs twice.
        await telemetry.enqueue(jobs, async (trace) => await (sent ??= send(trace)));
      } catch (error) {
        broken = error;
      }
      // The result of sending counts, whatever telemetry did with it.
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

/** Created thousands of times a second, so it allocates no closures. */
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

/** The unwrapped attempt of the telemetry. */
function asTraced({ job, trace }: SettledAttempt): SettledAttempt {
  return { job, trace: trace instanceof SafeAttempt ? trace.trace : trace };
}

const untraced: AttemptTrace = { traceId: undefined, run: (work) => work(), ended: () => undefined };

/** Runs the work once, inside `around`. Failures of `around` itself are reported; a failure of the work reaches the caller. */
function callOnce<T>(work: () => T, around: Around, onError: (error: unknown) => void): T {
  let began = false;
  let done = false;
  let value: T | undefined;
  try {
    around.run(() => {
      // A second call would run the job twice.
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
