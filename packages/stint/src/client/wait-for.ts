import type { JobTypes } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import type { Duration } from "../model/duration.ts";
import { refuseUnknownKeys, requireOneOf } from "../model/options.ts";
import type { Enqueued } from "./entries.ts";
import { idOf } from "./ids.ts";
import type { Waiting } from "./wait.ts";
import { resolveWait } from "./wait-options.ts";

export type WaitOptions = {
  timeout?: Duration;
  signal?: AbortSignal;
  /** With several jobs: `"report"` puts an Error in the place of each job that did not succeed. Default: the first one rejects. */
  onError?: "throw" | "report";
};

export type WaitedJob = Enqueued | string;
export type WaitedJobs = readonly WaitedJob[];

/** The result of each job, in their order. `Or` may take the place of any. */
export type WaitedResults<Jobs extends WaitedJobs, Or = never> = {
  -readonly [index in keyof Jobs]:
    | Or
    | (Jobs[index] extends Enqueued<infer Types> ? Types["result"] : unknown);
};

/**
 * Waits for a job to succeed, and returns its result. With an array, waits for all of them: their results in order.
 *
 * @throws {JobFailedError} It ended otherwise. Of several, the first that did.
 * @throws {WaitTimeoutError} It has not ended in time. The job continues.
 */
export type WaitFor = {
  <const All extends WaitedJobs>(
    jobs: All,
    options: WaitOptions & { onError: "report" },
  ): Promise<WaitedResults<All, Error>>;
  <const All extends WaitedJobs>(jobs: All, options?: WaitOptions): Promise<WaitedResults<All>>;
  <Types extends JobTypes>(
    job: Enqueued<Types> | string,
    options?: Omit<WaitOptions, "onError">,
  ): Promise<Types["result"]>;
};

/** `waitFor` of the client: one job, or many. */
export async function waitFor(waiting: Waiting, jobs: unknown, options: WaitOptions): Promise<unknown> {
  refuseUnknownKeys("waitFor", options, ["timeout", "signal", "onError"]);
  const { onError: given, ...rest } = options;
  const onError = requireOneOf("waitFor.onError", given ?? "throw", ["throw", "report"]);
  const { timeoutMs, signal } = resolveWait(rest);
  if (!Array.isArray(jobs)) {
    if (options.onError !== undefined)
      throw new InvalidOptionError("waitFor.onError", "is for several jobs: pass an array of them");
    return await waiting.for(idOf(jobs as string, "waitFor(job)"), timeoutMs, signal);
  }
  const ids = jobs.map((job, index) => idOf(job as string, `waitFor(jobs)[${index}]`));
  signal?.throwIfAborted();
  if (onError === "report") {
    const ended = await Promise.allSettled(ids.map((id) => waiting.for(id, timeoutMs, signal)));
    return ended.map((one) => (one.status === "fulfilled" ? one.value : (one.reason as Error)));
  }
  // The other waits end with the first failure: they would continue asking for jobs that nothing waits for.
  const failed = new AbortController();
  const stop = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  try {
    return await Promise.all(ids.map((id) => waiting.for(id, timeoutMs, stop)));
  } finally {
    failed.abort();
  }
}
