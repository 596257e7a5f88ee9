import { nowMs } from "../../core/clock.ts";
import { NotOfferedError, type FillState, type FlowShape, type TenantLoad } from "../../core/types.ts";
import type { Context } from "../context.ts";

/** Install the schema where it is missing, and empty the store. */
export async function prepare({ client }: Context): Promise<void> {
  await client.prepare();
}

export async function fill(
  { client }: Context,
  { count, state = "ready" }: { count: number; state?: FillState },
): Promise<void> {
  await client.fill(count, state);
}

/** Let at most this many of the filled jobs run at once, over all workers. */
export async function limit({ client }: Context, { max }: { max: number }): Promise<void> {
  if (client.limit === undefined) throw new NotOfferedError("this system offers no limits over all workers");
  await client.limit(max);
}

/** Enqueue a tree of jobs. Returns when all of it was stored. */
export async function enqueueFlow({ client }: Context, shape: FlowShape): Promise<{ atMs: number }> {
  if (client.enqueueFlow === undefined) throw new NotOfferedError("this system offers no flows");
  await client.enqueueFlow(shape);
  return { atMs: nowMs() };
}

/** Enqueue the jobs of a large tenant, then those of many small ones. */
export async function enqueueTenants({ client }: Context, load: TenantLoad): Promise<void> {
  if (client.enqueueTenants === undefined) throw new NotOfferedError("this system knows no tenants");
  await client.enqueueTenants(load);
}

/** Whether the store still holds a job that is ready, running or waits for its retry. */
export async function pending({ client }: Context): Promise<boolean> {
  return await client.pending();
}
