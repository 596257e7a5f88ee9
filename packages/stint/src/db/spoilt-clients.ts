import type { PoolClient } from "pg";
import { ConnectionLost } from "./db.ts";
import { dbErrorCategory } from "./sqlstate.ts";

/**
 * Clients whose connection is in an unknown state. Recorded where the failure is seen, not derived from the final error, which the work may have
 * replaced. A client that returns to its pool with an unfinished statement would deliver its result to the next caller.
 */
export const spoilt = new WeakSet<object>();

/** Notes that the connection is in an unknown state, if the error says so. */
export function noteLost(error: unknown, client: PoolClient): void {
  if (error instanceof ConnectionLost || dbErrorCategory(error) === "connection") spoilt.add(client);
}

/** Returns the client to its pool, or destroys it. */
export function release(client: PoolClient): void {
  client.release(spoilt.has(client));
}

/** Returns the client to its pool after the work, or destroys it. */
export async function runOn<T>(client: PoolClient, work: (client: PoolClient) => Promise<T>): Promise<T> {
  try {
    return await work(client);
  } catch (error) {
    noteLost(error, client);
    throw error;
  } finally {
    release(client);
  }
}
