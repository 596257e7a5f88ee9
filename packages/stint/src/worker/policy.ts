import type { ClaimedJob } from "../model/job.ts";
import type { Handler } from "./handler.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { AttemptPolicy } from "./verdict.ts";

/** What counts for a job: what it was given itself, else what its handler says, else what the worker does. */

export function handlerOf({ handlers }: ResolvedWorkerOptions, { kind }: ClaimedJob): Handler {
  const handler = handlers.get(kind);
  if (handler === undefined)
    throw new Error(`claimed a job of kind "${kind}", which this worker does not serve`);
  return handler;
}

export function policyOf(options: ResolvedWorkerOptions, job: ClaimedJob): AttemptPolicy {
  const { policy } = handlerOf(options, job);
  return {
    maxAttempts: job.maxAttempts ?? policy.attempts ?? options.attempts,
    backoff: policy.backoff ?? options.backoff,
    random: Math.random,
  };
}

export function timeoutOf(options: ResolvedWorkerOptions, job: ClaimedJob): number {
  return job.timeoutMs ?? options.handlers.get(job.kind)?.policy.timeoutMs ?? options.timeoutMs;
}

/** Whether one more crash, even one that is not its own, could end it or make it a suspect. */
export function isCrashSuspect(options: ResolvedWorkerOptions, job: ClaimedJob): boolean {
  const { kind, crashes, maxCrashes } = job;
  return (
    crashes > 0 || (maxCrashes ?? options.handlers.get(kind)?.policy.maxCrashes ?? options.maxCrashes) <= 2
  );
}
