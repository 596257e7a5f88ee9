import { nowMs } from "../../core/clock.ts";
import { NotOfferedError } from "../../core/types.ts";
import type { Context } from "../context.ts";

/** Start a worker with a handler that counts and does nothing else. */
export async function work({ client, runs }: Context): Promise<{ startedMs: number }> {
  await client.work(async (payload) => await runs.run(payload));
  return { startedMs: nowMs() };
}

/** The same with a handler that runs durable steps, each of which returns a small result. */
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

/** What the handlers saw, in the order they started. */
export async function latencies({ runs }: Context): Promise<{ ms: number[]; lastMs: number | undefined }> {
  return { ms: runs.latencies, lastMs: runs.lastMs };
}

/** What this process has used since it began. */
export async function usage(): Promise<{ cpuMs: number; rssBytes: number; heapBytes: number }> {
  const { user, system } = process.cpuUsage();
  // There with `--expose-gc` only; the heap is compared best without what nobody refers to.
  (globalThis as { gc?: () => void }).gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  return { cpuMs: (user + system) / 1000, rssBytes: rss, heapBytes: heapUsed };
}

/** Stop the worker, if there is one, and close every connection. */
export async function close({ client }: Context): Promise<void> {
  await client.close();
}
