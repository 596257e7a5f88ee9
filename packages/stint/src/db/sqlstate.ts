/** How the library reacts to an error of the driver or the server. */
export type DbErrorCategory =
  /** The connection or the server is gone, or the server is no longer a primary. */
  | "connection"
  /** The statement lost a race inside the server and may be sent again unchanged. */
  | "contention"
  /** The row cannot be stored. Sending it again cannot succeed. */
  | "data"
  /** A table or function is missing: the schema is not of the version this code needs. */
  | "schema"
  | "other";

const connectionCodes = new Set([
  "25006", // read-only: a demoted primary. The connection works, but no write does.
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "53300",
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
const contentionCodes = new Set(["40001", "40P01", "55P03"]);
const schemaCodes = new Set(["42P01", "42883", "3F000", "42703", "42704"]);

// `pg` raises these errors without a code when the socket ends during a query.
const connectionMessages =
  /connection terminated|not queryable|client was closed|connection timeout|server closed/i;

export function dbErrorCategory(error: unknown): DbErrorCategory {
  if (!(error instanceof Error)) return "other";
  const code = codeOf(error);
  if (code === undefined) return connectionMessages.test(error.message) ? "connection" : "other";
  if (code.startsWith("08") || connectionCodes.has(code)) return "connection";
  if (contentionCodes.has(code)) return "contention";
  if (schemaCodes.has(code)) return "schema";
  if (code.startsWith("22") || code.startsWith("23")) return "data";
  return "other";
}

/** The session does not have the named statement, or already has one of that name. The statement did not run. */
export function isLostStatement(error: unknown): boolean {
  const code = codeOf(error);
  return code === "26000" || code === "42P05";
}

/**
 * Whether the error is a fault of the server, not of the statement, so that the same work may succeed later: lost races, lock
 * timeouts, a full disk, a lack of memory or connections, a demoted primary.
 */
export function isFault(code: string | undefined): code is string {
  if (code === undefined) return false;
  return /^(?:08|53|58)/.test(code) || connectionCodes.has(code) || contentionCodes.has(code);
}

export function codeOf(error: unknown): string | undefined {
  const code: unknown = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

const checkLogin = "Check the user and the password, and that pg_hba.conf lets them in from here.";
const checkUrl = "Check the connection string; percent-encode / # ? % and @ in the password.";
const connectAdviceByCode: ReadonlyMap<string | undefined, string> = new Map([
  ["28P01", checkLogin],
  ["28000", checkLogin],
  ["3D000", "Create the database, or correct its name."],
  ["ERR_INVALID_URL", checkUrl],
]);

/** The fix for a connection that was refused for a permanent reason. */
export function connectAdvice(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // A stray % in the connection string.
  if (error instanceof URIError) return checkUrl;
  if (/unsupported startup parameter/.test(error.message))
    return "A pooler refuses this setting at login. Leave out `options`, or list it in PgBouncer's ignore_startup_parameters.";
  // Stint's error wraps the driver's, which has the code.
  return connectAdviceByCode.get(codeOf(error)) ?? connectAdvice(error.cause);
}
