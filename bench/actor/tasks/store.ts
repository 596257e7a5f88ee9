import type { FillState } from "../../core/types.ts";
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

/** Whether the store still holds a job that is ready, running or waits for its retry. */
export async function pending({ client }: Context): Promise<boolean> {
  return await client.pending();
}
