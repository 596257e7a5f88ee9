import type { Connection } from "../db/connection.ts";
import { InvalidOptionError } from "../errors.ts";

/** @throws {InvalidOptionError} A worker cannot connect by this: it needs connections of its own, also from its lease thread. */
export function requireWorkerConnection(connection: Connection | undefined): Connection {
  if (connection === undefined)
    throw new InvalidOptionError(
      "stint.worker",
      "needs connections of its own, and this client uses your pool. Make another client for the worker: createStint({ database: <connection string> })",
    );
  requirePassable(connection);
  return connection;
}

/** The lease thread connects by itself. Of functions, it can only call that of the password, by message. */
function requirePassable(connection: Connection): void {
  try {
    structuredClone(typeof connection === "string" ? connection : { ...connection, password: undefined });
  } catch (error) {
    throw new InvalidOptionError(
      "createStint.database",
      "must not contain functions other than password where a worker is made, because its lease thread connects by itself",
      { cause: error },
    );
  }
}
