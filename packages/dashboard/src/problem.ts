/** An error response: the only part of an error that is sent to the client. */
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

/** The request is invalid. Nothing was changed. */
export function badRequest(message: string, hint?: string): Problem {
  return new Problem(400, "BAD_REQUEST", message, hint === undefined ? {} : { hint });
}

/** Errors of the library whose messages are written for the caller. */
const statusByCode: Readonly<Record<string, number>> = {
  INVALID_OPTION: 400,
  INVALID_PAYLOAD: 400,
  UNKNOWN_KIND: 400,
  JOB_NOT_FOUND: 404,
  SCHEDULE_NOT_FOUND: 404,
  SCHEDULE_CONFLICT: 409,
  WRONG_STATE: 409,
  QUEUE_FULL: 409,
  TOO_MANY_OPERATIONS: 409,
  UNKNOWN_OUTCOME: 503,
  SCHEMA_VERSION: 503,
};

/**
 * The public part of an error. Undefined: the content of this error was not reviewed, so the error is logged and the
 * client gets only an id.
 */
export function problemOf(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error;
  const code = codeOf(error);
  // Checked by code, not by class: two copies of the library would have two classes.
  const status = code !== undefined && Object.hasOwn(statusByCode, code) ? statusByCode[code] : undefined;
  // The quoted driver message may name hosts and users.
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

/** SQLSTATE classes of an unavailable or full server, and system error codes of lost sockets. */
function isAway(code: string): boolean {
  return /^(?:08|53|57P|28)/.test(code) || /^(?:ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EHOST|ENET|EAI_)/.test(code);
}
