/**
 * Every error that Stint throws on purpose. Match on `code`; messages may change.
 *
 * A class exists only where a caller can react to it. Each message says what happened, to which
 * object, and what to do. `docs/errors.md` has one heading per code; a test keeps it in step.
 */
export abstract class StintError extends Error {
  abstract readonly code: string;
  override get name(): string {
    return this.constructor.name;
  }
}

/** An option, name or argument is not valid. Nothing was written. */
export class InvalidOptionError extends StintError {
  readonly code = "INVALID_OPTION";
  constructor(
    readonly option: string,
    readonly rule: string,
    options?: ErrorOptions,
  ) {
    super(`${option}: ${rule}`, options);
  }
}

/** The payload (or result) would not survive JSON, is too large, or does not fit the kind's schema. */
export class InvalidPayloadError extends StintError {
  readonly code = "INVALID_PAYLOAD";
  constructor(
    readonly kind: string,
    /** The place in the value, such as `payload.items[3].price`. */
    readonly path: string,
    readonly rule: string,
    options?: ErrorOptions,
  ) {
    super(`${kind}: ${path} ${rule}`, options);
  }
}

/** The client has no kind of this name. */
export class UnknownKindError extends StintError {
  readonly code = "UNKNOWN_KIND";
  constructor(
    readonly kind: string,
    readonly suggestion: string | undefined,
  ) {
    super(
      `No kind "${kind}" is defined here${suggestion === undefined ? "." : `; did you mean "${suggestion}"?`} ` +
        `Nothing was enqueued. Pass the job made by defineJob, or list it in createStint({ jobs }).`,
    );
  }
}

/** A queue has reached its limit, and the job was not enqueued. In a transaction, that transaction has failed. */
export class QueueFullError extends StintError {
  readonly code = "QUEUE_FULL";
  constructor(
    readonly queue: string,
    /** Jobs of the queue, or of the tenant in it, that have not ended. */
    readonly depth: number,
    /** How long the oldest ready job has been waiting. */
    readonly ageMs: number,
    /** After how long to try again. */
    readonly retryAfterMs: number,
    /** The tenant that has reached its own limit; undefined if the queue has. */
    readonly tenant?: string,
    /** The dependency whose tokens a new job would wait for too long, if this is the reason. */
    readonly dependency?: string,
    /** For how long, about. */
    readonly delayMs?: number,
  ) {
    super(
      `Queue "${queue}" is full${tenant === undefined ? "" : ` for tenant "${tenant}"`}: ${depth} jobs, the oldest ready for ${Math.round(ageMs)} ms. ` +
        (dependency === undefined
          ? ""
          : `Dependency "${dependency}" is ${Math.round(delayMs ?? 0)} ms behind. `) +
        `Nothing was enqueued. Try again in ${retryAfterMs} ms.`,
    );
  }
}

export class JobNotFoundError extends StintError {
  readonly code = "JOB_NOT_FOUND";
  constructor(readonly jobId: string) {
    super(`No job ${jobId} exists: it was never committed, or it was pruned after its retention.`);
  }
}

export class ScheduleNotFoundError extends StintError {
  readonly code = "SCHEDULE_NOT_FOUND";
  constructor(readonly schedule: string) {
    super(
      `No schedule "${schedule}" exists. Check the spelling; \`stint schedules list\` shows their names.`,
    );
  }
}

/** The schedule belongs to another owner or exists already, or its job has not ended. Nothing was changed. */
export class ScheduleConflictError extends StintError {
  readonly code = "SCHEDULE_CONFLICT";
}

/** A batch takes no more jobs: it was closed, or its callback has ended. Nothing was enqueued. */
export class BatchClosedError extends StintError {
  readonly code = "BATCH_CLOSED";
  constructor(readonly batchId: string) {
    super(
      `Batch ${batchId} is closed or does not exist, so nothing was added. ` +
        "Make it with open: true, and close it after the last job was added.",
    );
  }
}

/** The job's state does not allow the action. */
export class WrongStateError extends StintError {
  readonly code = "WRONG_STATE";
  constructor(
    readonly jobId: string,
    readonly state: string,
    readonly action: string,
    readonly allowed: readonly string[],
    /** A park reason that the action cannot lift, and what does. */
    held?: { readonly reason: string; readonly why: string },
  ) {
    super(
      held === undefined
        ? `Job ${jobId} is ${state}; ${action} needs a job that is ${allowed.join(" or ")}. Nothing was changed.`
        : `Job ${jobId} is ${state} (${held.reason}), and ${action} cannot lift that: ${held.why} Nothing was changed.`,
    );
  }
}

/** The limit of concurrent bulk operations is reached. */
export class TooManyOperationsError extends StintError {
  readonly code = "TOO_MANY_OPERATIONS";
  constructor(readonly most: number) {
    super(
      `${most} bulk operations are already running, which is the limit. Nothing was started. ` +
        `Wait until one has ended, or abort one.`,
    );
  }
}

/** The kind is defined with `requiresTransaction` and was enqueued without a transaction. */
export class TransactionRequiredError extends StintError {
  readonly code = "TRANSACTION_REQUIRED";
  constructor(readonly kind: string) {
    super(
      `${kind} must be enqueued in a transaction (it was defined with requiresTransaction). ` +
        `Use stint.in(tx).enqueue(…). Nothing was written.`,
    );
  }
}

/** The connection was lost after a write was sent and before its result arrived. */
export class UnknownOutcomeError extends StintError {
  readonly code = "UNKNOWN_OUTCOME";
  /**
   * Set only if the database's clock was set back: the write may still take effect until this time of that clock. Repeat it
   * after that time. Undefined: the write can no longer take effect and may be repeated at once.
   */
  readonly mayHappenUntil: Date | undefined;
  constructor(
    readonly action: string,
    /** Enqueue again with these ids: if the first write took effect, it is the same job. */
    readonly jobIds: readonly string[],
    { mayHappenUntil, ...options }: ErrorOptions & { mayHappenUntil?: Date | undefined } = {},
  ) {
    const ids = `${jobIds.slice(0, 3).join(", ")}${jobIds.length > 3 ? ", …" : ""}`;
    const after =
      mayHappenUntil === undefined ? "" : ` after ${mayHappenUntil.toISOString()} by the database's clock`;
    super(
      `${action}: the connection was lost before the result arrived, so the write may or may not have taken effect. ` +
        (/^(enqueue|signal)/.test(action)
          ? `Repeat it with the same id (${ids})${after}: it is then the same ${action.startsWith("signal") ? "signal" : "job"}.`
          : `Look at the job (${ids})${after} before you repeat it.`),
      options,
    );
    this.mayHappenUntil = mayHappenUntil;
  }
}

/** The schema is missing, too old or too new for this version. */
export class SchemaVersionError extends StintError {
  readonly code = "SCHEMA_VERSION";
  constructor(
    readonly schema: string,
    readonly found: number | undefined,
    readonly needed: number,
    remedy: string,
  ) {
    super(
      `Schema "${schema}" is ${found === undefined ? "not installed" : `at version ${found}`}, ` +
        `this Stint needs version ${needed}. ${remedy}`,
    );
  }
}

/** The database cannot be reached, refuses connections, or is read-only. */
export class DatabaseUnavailableError extends StintError {
  readonly code = "DATABASE_UNAVAILABLE";
  constructor(detail: string, options?: ErrorOptions & { advice?: string | undefined }) {
    const advice = options?.advice ?? "Nothing is known to be lost; try again.";
    super(`The database is unavailable: ${detail}. ${advice}`, options);
  }
}

/** The worker did not start, because its lease thread cannot renew leases. */
export class LeasesUnavailableError extends StintError {
  readonly code = "LEASES_UNAVAILABLE";
  constructor(
    /** The failure of the lease thread. */
    readonly detail: string,
    options?: ErrorOptions,
  ) {
    super(
      `The worker did not start: its lease thread cannot renew leases (${detail}). ` +
        `Every job longer than its lease would run again elsewhere. ` +
        `Allow threads (node:worker_threads) and one more connection to the database for each worker, then start again.`,
      options,
    );
  }
}

/** The wait for a job's result ended before the job did. */
export class WaitTimeoutError extends StintError {
  readonly code = "WAIT_TIMEOUT";
  constructor(
    readonly jobId: string,
    waitedMs: number,
  ) {
    super(
      `Job ${jobId} has not ended (or was never committed) after ${waitedMs} ms. ` +
        `Only the waiting stopped; the job is unaffected.`,
    );
  }
}

/** The awaited job ended without a result. */
export class JobFailedError extends StintError {
  readonly code = "JOB_FAILED";
  constructor(
    readonly jobId: string,
    readonly state: "dead" | "cancelled",
    readonly reason: string | null,
  ) {
    super(`Job ${jobId} is ${state}${reason === null ? "" : `: ${reason}`}. It has no result.`);
  }
}

// ---- Reasons why a handler's signal aborts -------------------------------------------------------

/** The lease ran out and another worker may own the job. This attempt can no longer record anything. */
export class LeaseLostError extends StintError {
  readonly code = "LEASE_LOST";
  constructor(
    readonly jobId: string,
    readonly epoch: number,
    options?: ErrorOptions,
  ) {
    super(
      `Job ${jobId}: the lease of epoch ${epoch} is gone, so this attempt's outcome was not recorded. ` +
        `Another worker may have the job now.`,
      options,
    );
  }
}

/** The lease ran out and the job was rescued: its worker died, or could not renew the lease. */
export class CrashedError extends StintError {
  readonly code = "CRASHED";
  constructor(
    readonly jobId: string,
    /** The id of the worker whose lease ran out. */
    readonly worker: string,
    /** The number of crashes of this job so far. */
    readonly crashes: number,
  ) {
    super(
      `Job ${jobId}: its lease ran out while worker ${worker} ran it (crash ${crashes} of this job). ` +
        `The worker died, or could not reach the database.`,
    );
  }
}

/** The thread or process of an isolated handler ended before the handler had. Counts as a crash of the job. */
export class HandlerCrashedError extends StintError {
  readonly code = "HANDLER_CRASHED";
  constructor(
    message: string,
    readonly outOfMemory: boolean,
    /** The signal that killed the process, if one did. */
    readonly signal: string | null,
    readonly exitCode: number | null,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The attempt ran longer than its `timeout`. */
export class TimedOutError extends StintError {
  readonly code = "TIMED_OUT";
  constructor(
    readonly jobId: string,
    readonly timeoutMs: number,
  ) {
    super(
      `Job ${jobId} ran longer than its timeout of ${timeoutMs} ms. Raise \`timeout\` or split the work.`,
    );
  }
}

/** The job was cancelled while it ran. */
export class CancelledError extends StintError {
  readonly code = "CANCELLED";
  constructor(readonly jobId: string) {
    super(`Job ${jobId} was cancelled while it ran.`);
  }
}

/** The worker is stopping and its drain time is over, or a job is paused or expires before its batch began. The job is released with nothing spent. */
export class StoppingError extends StintError {
  readonly code = "STOPPING";
  constructor(message = "The worker is stopping; the job is released and no attempt is spent.") {
    super(message);
  }
}

/** The handler did not call the steps that the job remembers, in the same order. */
export class StepOrderError extends StintError {
  readonly code = "STEP_ORDER";
  constructor(
    readonly jobId: string,
    /** The number of the call in its handler, from 1. */
    readonly seq: number,
    /** The step that the handler called. */
    readonly step: string,
    /** The step that the job remembers in this place. */
    readonly remembered: string,
    /** Where the job remembers the called step, if in another place. */
    rememberedSeq?: number,
  ) {
    super(
      `Job ${jobId}: call ${seq} of its handler is "${step}", but the job remembers ` +
        (rememberedSeq === undefined
          ? remembered === step
            ? "another attempt's result for this step. "
            : `"${remembered}" there. `
          : `this step as call ${rememberedSeq}. `) +
        `Nothing was run. Call the same steps in the same order in every attempt: no random names, no times, no condition that changes. ` +
        `After a change of the handler, deploy the old order until its jobs have ended, or cancel the job and enqueue another one.`,
    );
  }
}

// ---- Errors that handlers throw ------------------------------------------------------------------

/** No further attempt can succeed: the job is dead at once. */
export class PermanentError extends StintError {
  readonly code = "PERMANENT";
}

/**
 * Another system asked for a pause. The next attempt waits at least `retryAfter`. If the kind uses dependencies, all jobs that use them wait, and no
 * attempt is spent. `dependency` names the one that asked, where the kind uses several; default: all of them.
 */
export class RateLimitedError extends StintError {
  readonly code = "RATE_LIMITED";
  readonly retryAfter: string | number | Date;
  readonly dependency: string | undefined;
  constructor(init: {
    retryAfter: string | number | Date;
    dependency?: string;
    message?: string;
    cause?: unknown;
  }) {
    const given: { retryAfter?: unknown } | null | undefined = init;
    if (given?.retryAfter === undefined || given.retryAfter === null) {
      throw new InvalidOptionError(
        "RateLimitedError",
        'takes { retryAfter }, as in new RateLimitedError({ retryAfter: "30s" })',
      );
    }
    super(init.message ?? "Rate limited", init.cause === undefined ? undefined : { cause: init.cause });
    this.retryAfter = init.retryAfter;
    this.dependency = init.dependency;
  }
}
