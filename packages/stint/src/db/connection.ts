import { DatabaseUnavailableError, InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { maskUrl } from "../runtime/mask.ts";
import { codeOf, connectAdvice } from "./sqlstate.ts";

/**
 * Where the database is, and how to get in: a connection string, or its parts. Ours rather than the driver's, so that
 * the driver's types are not part of what we publish.
 */
export type Connection = string | ConnectionParts;

export type ConnectionParts = {
  connectionString?: string;
  host?: string;
  port?: number;
  user?: string;
  /** Asked for at every connect if it is a function, for passwords that change. */
  password?: string | (() => string | Promise<string>);
  database?: string;
  /** `true`, or options of Node's `tls.connect`. */
  ssl?: boolean | object;
  /** Command-line options of the session, as in `-c statement_timeout=5s`. */
  options?: string;
};

export const connectionKeys = [
  "connectionString",
  "host",
  "port",
  "user",
  "password",
  "database",
  "ssl",
  "options",
] as const satisfies (keyof ConnectionParts)[];

/** The driver's configuration for it. */
export function toClientConfig(connection: Connection): ConnectionParts {
  return typeof connection === "string" ? { connectionString: connection } : connection;
}

/**
 * Check what somebody gave as the place of the database.
 *
 * @throws {InvalidOptionError} It is neither a connection string nor its parts.
 */
export function requireConnection(option: string, given: unknown): Connection {
  if (typeof given === "string" && /^(?:postgres(?:ql)?:\/\/|socket:|\/)/i.test(given)) return given;
  // Of a class (a pool, a URL) it would be taken for parts of which none is set, and connect to whatever the defaults say.
  if (isPlainObject(given)) {
    refuseUnknownKeys(option, given, connectionKeys);
    return given;
  }
  throw new InvalidOptionError(
    option,
    "must be a connection string such as postgres://user@host/name, or its parts as in { host, database, user }, " +
      `got ${describe(given)}. ${connectionHint(given)}`,
  );
}

/** Why there is no connection, without the password, and what to do about it. */
export function couldNotConnect(error: unknown): DatabaseUnavailableError {
  const detail = error instanceof Error ? maskUrl(error.message) || String(codeOf(error)) : String(error);
  return new DatabaseUnavailableError(`could not connect (${detail})`, {
    cause: error,
    advice: connectAdvice(error),
  });
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function connectionHint(given: unknown): string {
  if (given instanceof URL) return "Pass its href.";
  if (typeof given === "string" && /^[a-z][\w+.-]*:\/\//i.test(given)) return "Stint works on Postgres only.";
  if (typeof (given as { query?: unknown } | null | undefined)?.query === "function")
    return "A pool or client of yours is not taken; Stint keeps connections of its own.";
  return "Is DATABASE_URL set where this process runs?";
}
