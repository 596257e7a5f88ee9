import type { ClaimedJob } from "../model/job.ts";
import type { Handler } from "./handler.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { AttemptPolicy } from "./verdict.ts";

type Options = ResolvedWorkerOptions;

/** The settings of a job: its own, else those of its handler, else those of the worker. */

export function handlerOf({ handlers }: Pick<Options, "handlers">, { kind }: ClaimedJob): Handler {
  const handler = handlers.get(kind);
  if (handler === undefined)
    throw new Error(`claimed a job of kind "${kind}", which this worker does not serve`);
  return handler;
}

export function policyOf(
  options: Pick<Options, "handlers" | "attempts" | "backoff" | "maxCrashes">,
  job: ClaimedJob,
): AttemptPolicy {
  const { policy, definition } = handlerOf(options, job);
  return {
    maxAttempts: job.maxAttempts ?? policy.attempts ?? options.attempts,
    maxCrashes: job.maxCrashes ?? policy.maxCrashes ?? options.maxCrashes,
    backoff: policy.backoff ?? options.backoff,
    random: Math.random,
    waitsForDependencies: definition.uses.length > 0,
  };
}

export function timeoutOf(options: Pick<Options, "handlers" | "timeoutMs">, job: ClaimedJob): number {
  return job.timeoutMs ?? options.handlers.get(job.kind)?.policy.timeoutMs ?? options.timeoutMs;
}

/** Whether one more crash, even one caused by another job, could kill or quarantine it. */
export function isCrashSuspect(options: Pick<Options, "handlers" | "maxCrashes">, job: ClaimedJob): boolean {
  const { kind, crashes, maxCrashes } = job;
  return (
    crashes > 0 || (maxCrashes ?? options.handlers.get(kind)?.policy.maxCrashes ?? options.maxCrashes) <= 2
  );
}
