import type { AttemptTrace, Telemetry } from "../model/telemetry.ts";

/** The same telemetry, unable to do harm: whatever it throws is told, and the job goes on as if there were none. */
export function safeTelemetry(telemetry: Telemetry, onError: (error: unknown) => void): Telemetry {
  const attempt = (trace: AttemptTrace): AttemptTrace => ({
    traceId: trace.traceId,
    run: (work) => callOnce(work, (once) => trace.run(once), onError),
    ended: (end) => attempted(() => trace.ended(end), onError),
  });
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
    attempt: (job, worker) => attempted(() => attempt(telemetry.attempt(job, worker)), onError) ?? untraced,
    quietly: (work) => callOnce(work, (once) => telemetry.quietly(once), onError),
  };
}

const untraced: AttemptTrace = { traceId: undefined, run: (work) => work(), ended: () => undefined };

/** What `around` does besides the work may fail; the work is done once, and its own failure is the caller's. */
function callOnce<T>(work: () => T, around: (once: () => T) => T, onError: (error: unknown) => void): T {
  let done: { value: T } | undefined;
  let began = false;
  try {
    around(() => {
      // Done twice, a job would run twice.
      if (done !== undefined) return done.value;
      began = true;
      done = { value: work() };
      return done.value;
    });
  } catch (error) {
    if (began && done === undefined) throw error;
    onError(error);
  }
  return done === undefined ? work() : done.value;
}

function attempted<T>(call: () => T, onError: (error: unknown) => void): T | undefined {
  try {
    return call();
  } catch (error) {
    onError(error);
    return undefined;
  }
}
