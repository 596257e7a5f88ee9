import type { ClientBase, PoolClient } from "pg";
import { DatabaseUnavailableError } from "../errors.ts";
import { maskUrl } from "../runtime/mask.ts";
import { ConnectionLost } from "./db.ts";
import { noteLost } from "./spoilt-clients.ts";
import { codeOf, dbErrorCategory } from "./sqlstate.ts";

type Response = {
  /** Of the statement. */
  readonly name: string;
  readonly deadlineMs: number;
  readonly onError?: (error: unknown) => void;
};

/** The response, if it arrives in time. Not by `Promise.race`: every statement passes here, and a race costs three promises more. */
export function respondedWithin<T>(
  client: PoolClient,
  response: Promise<T>,
  { name, deadlineMs, onError }: Response,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      noteLost(error, client);
      const known = named(error, name);
      onError?.(known);
      reject(known);
    };
    const timeOut = (): void => fail(new ConnectionLost(`${name}: no response within ${deadlineMs} ms`));
    // After a blocked event loop, overdue timers fire before sockets are read. One more turn reads a result that has already
    // arrived. Dropping the result of a claim would leave its jobs without an owner until their leases run out.
    const timer = setTimeout(() => setImmediate(timeOut), deadlineMs);
    response.then((result) => {
      if (unreplicated.delete(client))
        return fail(new ConnectionLost(`${name}: the wait for the standby was cancelled`));
      clearTimeout(timer);
      resolve(result);
    }, fail);
  });
}

/** The error of a statement, as callers know it. */
function named(error: unknown, name: string): unknown {
  if (codeOf(error) === "25006") return new DatabaseUnavailableError("it is read-only", { cause: error });
  if (dbErrorCategory(error) === "connection")
    return new ConnectionLost(`${name}: ${maskUrl((error as Error).message)}`, { cause: error });
  return error;
}

// For a cancelled wait for its synchronous standby Postgres reports success with a warning. A failover could still lose
// that commit, so the outcome counts as unknown.
const unreplicated = new WeakSet<object>();

/** Notice when a commit of this client is not replicated. */
export function watchReplication(client: ClientBase): void {
  client.on("notice", ({ code, message = "" }) => {
    if (code === "01000" && message.includes("synchronous replication")) unreplicated.add(client);
  });
}
