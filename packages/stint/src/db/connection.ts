import { DatabaseUnavailableError, InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { maskUrl } from "../runtime/mask.ts";
import { clip } from "../runtime/text.ts";
import { codeOf, connectAdvice } from "./sqlstate.ts";

/**
 * How to connect: a connection string, or its parts. Declared here, so that the published types do not depend on the
 * driver's.
 */
export type Connection = string | ConnectionParts;

export type ConnectionParts = {
  connectionString?: string;
  host?: string;
  port?: number;
  user?: string;
  /** A function is called at every connect, for passwords that change. */
  password?: string | (() => string | Promise<string>);
  database?: string;
  /** `true`, or options of Node's `tls.connect`. */
  ssl?: boolean | object;
  /** Command-line options of the session, as in `-c statement_timeout=5s`. */
  options?: string;
};

/**
 * The shape of the application's own `Pool` of `pg`. Stint borrows its connections for single statements and never closes it.
 */
export interface PoolLike {
  connect(): Promise<{ query(text: string): unknown; release(destroy?: boolean): void }>;
  end(): Promise<void>;
  readonly totalCount: number;
}

export function isPool(value: unknown): value is PoolLike {
  if (typeof value !== "object" || value === null) return false;
  const { connect, end, totalCount } = value as Partial<Record<keyof PoolLike, unknown>>;
  return typeof connect === "function" && typeof end === "function" && typeof totalCount === "number";
}

const connectionKeys = [
  "connectionString",
  "host",
  "port",
  "user",
  "password",
  "database",
  "ssl",
  "options",
] as const satisfies (keyof ConnectionParts)[];

/**
 * A connection string for messages, without its password. The whole string is hidden if the password cannot be located: an unescaped
 * character makes the string parse differently than intended.
 */
export function shownConnection(text: string): string {
  const hidden = "(not shown: it may hold a password)";
  const parts = /^(?:[a-z]{1,16}:\/\/)?([^/?#]*)(.*)$/is.exec(text);
  const [authority = "", rest = ""] = parts?.slice(1) ?? [];
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  const isPlain = /^(?:\[[\da-f:.]+\]|[\w.%,-]*)(?::\d*)?(?:,[\w.%:,-]*)?$/i.test(host);
  if (!isPlain || rest.includes("@") || /\s/.test(text)) return hidden;
  // Without a scheme the parts cannot be distinguished.
  if (!/^[a-z]+:\/\//i.test(text) && !/^[\w./-]*$/.test(text)) return hidden;
  return maskUrl(text);
}

/** The connection as configuration of the driver. */
export function toClientConfig(connection: Connection): ConnectionParts {
  return typeof connection === "string" ? { connectionString: connection } : connection;
}

/**
 * Check a `database` option.
 *
 * @throws {InvalidOptionError} It is neither a connection string nor its parts.
 */
export function requireConnection(option: string, given: unknown): Connection {
  if (typeof given === "string" && /^(?:postgres(?:ql)?:\/\/|socket:|\/(?!\/)[^@]*$)/i.test(given))
    return requireOneHost(option, given, hostsOf(given));
  // An instance of a class (a pool, a URL) would count as parts of which none is set, and connect to the driver's defaults.
  if (isPlainObject(given)) {
    refuseUnknownKeys(option, given, connectionKeys);
    const { connectionString, host } = given as ConnectionParts;
    return requireOneHost(option, given, `${host ?? ""}${hostsOf(connectionString ?? "")}`);
  }
  const got = typeof given === "string" ? `"${clip(shownConnection(given), 200)}"` : describe(given);
  throw new InvalidOptionError(
    option,
    "must be a connection string such as postgres://user@host/name, or its parts as in { host, database, user }, " +
      `got ${got}. ${connectionHint(given)}`,
  );
}

/** The reason why connecting failed, without the password, and the fix. */
export function couldNotConnect(error: unknown): DatabaseUnavailableError {
  const detail = error instanceof Error ? maskUrl(error.message) || String(codeOf(error)) : String(error);
  return new DatabaseUnavailableError(`could not connect (${detail})`, {
    cause: error,
    advice: connectAdvice(error),
  });
}

/** The driver does not support lists of hosts and would look up the list as one host name. */
function requireOneHost<T>(option: string, connection: T, hosts: string): T {
  if (!hosts.includes(",")) return connection;
  throw new InvalidOptionError(
    option,
    "names several hosts, and Stint connects to one host. Name the one that always leads to the primary: a virtual address, a DNS name that follows it, or a pooler",
  );
}

function hostsOf(connectionString: string): string {
  const [, authority = "", query = ""] =
    /^[a-z]+:\/\/([^/?#]*)[^?]*(?:\?(.*))?$/is.exec(connectionString) ?? [];
  return authority.slice(authority.lastIndexOf("@") + 1) + (new URLSearchParams(query).get("host") ?? "");
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
    return "A client of yours is not taken; pass a Pool to createStint, or a connection string.";
  return "Is DATABASE_URL set where this process runs?";
}
