/** An answer that is not what was asked for: what goes to the client of an error, and nothing more. */
export class Problem extends Error {
  readonly headers: Readonly<Record<string, string>>;
  readonly hint: string | undefined;
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    { hint, headers = {}, cause }: { hint?: string; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.hint = hint;
    this.headers = headers;
  }
}

/** What was sent cannot be understood. Nothing was done. */
export function badRequest(message: string, hint?: string): Problem {
  return new Problem(400, "BAD_REQUEST", message, hint === undefined ? {} : { hint });
}

/** Errors of the library whose messages are written for the caller. */
const statusByCode: Readonly<Record<string, number>> = {
  INVALID_OPTION: 400,
  INVALID_PAYLOAD: 400,
  JOB_NOT_FOUND: 404,
  WRONG_STATE: 409,
  TOO_MANY_OPERATIONS: 409,
  UNKNOWN_OUTCOME: 503,
  SCHEMA_VERSION: 503,
};

/**
 * What may be told of an error. Undefined: nothing, because nobody has thought about what is in it; it is logged and
 * answered with an id.
 */
export function problemOf(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error;
  const code = codeOf(error);
  // By its code and not by its class: two copies of the library would have two classes.
  const status = code !== undefined && Object.hasOwn(statusByCode, code) ? statusByCode[code] : undefined;
  // The driver's words, which such an error quotes, may name hosts and users.
  if (code === "DATABASE_UNAVAILABLE") return databaseAway(error);
  if (status !== undefined && code !== undefined && error instanceof Error)
    return new Problem(status, code, error.message, { cause: error });
  if (code === "57014") {
    return new Problem(503, "TOO_SLOW", "The database took too long over this and was stopped.", {
      hint: "Narrow the filter or the range, or try again when the database is less busy.",
      cause: error,
    });
  }
  return code !== undefined && isAway(code) ? databaseAway(error) : undefined;
}

function databaseAway(cause: unknown): Problem {
  return new Problem(503, "DATABASE_UNAVAILABLE", "The database does not respond.", {
    hint: "Jobs are safe where they are. This page tries again by itself.",
    headers: { "retry-after": "2" },
    cause,
  });
}

function codeOf(error: unknown): string | undefined {
  const code: unknown = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}

/** SQLSTATE classes of a server that is away or full, and the system's words for a socket that is gone. */
function isAway(code: string): boolean {
  return /^(?:08|53|57P|28)/.test(code) || /^(?:ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EHOST|ENET|EAI_)/.test(code);
}
