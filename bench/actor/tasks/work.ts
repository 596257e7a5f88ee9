import { nowMs } from "../../core/clock.ts";
import { NotOfferedError, type Payload, type StartRate } from "../../core/types.ts";
import type { Context } from "../context.ts";

/** Start a worker whose handler only counts. */
export async function work({ client, runs }: Context): Promise<{ startedMs: number }> {
  await client.work(async (payload) => await runs.run(payload));
  return { startedMs: nowMs() };
}

/** The same, for trees of jobs. */
export async function workFlows({ client, runs }: Context): Promise<{ startedMs: number }> {
  const onJob = async (payload: Payload): Promise<void> => await runs.run(payload);
  await (client.workFlows === undefined ? client.work(onJob) : client.workFlows(onJob));
  return { startedMs: nowMs() };
}

/** The same, at a rate over all workers. */
export async function workAtRate({ client, runs }: Context, rate: StartRate): Promise<{ startedMs: number }> {
  if (client.workAtRate === undefined)
    throw new NotOfferedError("this system offers no rate over all workers");
  await client.workAtRate(rate, async (payload) => await runs.run(payload));
  return { startedMs: nowMs() };
}

/** Start a worker whose handler runs durable steps, each with a small result. */
export async function workSteps(
  { client, runs }: Context,
  { steps }: { steps: number },
): Promise<{ startedMs: number }> {
  if (client.workSteps === undefined) throw new NotOfferedError("this system offers no durable steps");
  await client.workSteps(steps, async (payload) => await runs.run(payload));
  return { startedMs: nowMs() };
}

/** How many handlers have started here, and when the first one did. */
export async function progress({ runs }: Context): Promise<{ count: number; firstMs: number | undefined }> {
  return { count: runs.count, firstMs: runs.firstMs };
}

/** The latencies of the handlers, in the order of their starts. */
export async function latencies({ runs }: Context): Promise<{ ms: number[]; lastMs: number | undefined }> {
  return { ms: runs.latencies, lastMs: runs.lastMs };
}

/** The same, with the number of each job. */
export async function numberedLatencies({ runs }: Context): Promise<{ n: number[]; ms: number[] }> {
  return { n: runs.numbers, ms: runs.latencies };
}

/** Memory and processor time used by this process since it started. */
export async function usage(): Promise<{ cpuMs: number; rssBytes: number; heapBytes: number }> {
  const { user, system } = process.cpuUsage();
  // Defined only with `--expose-gc`. Heaps are compared without garbage.
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  return { cpuMs: (user + system) / 1000, rssBytes: rss, heapBytes: heapUsed };
}

/** Stop the worker, if there is one, and close every connection. */
export async function close({ client }: Context): Promise<void> {
  await client.close();
}
