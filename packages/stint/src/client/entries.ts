import type { JobDefinition, JobTypes } from "../define.ts";
import { InvalidOptionError, StintError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import type { EnqueueStatus } from "../model/enqueue-status.ts";
import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";
import type { EnqueueOptions } from "./prepare.ts";
import type { SignalSendOptions, SignalTarget } from "./signals.ts";

/** A job that is in the database, or will be once its transaction commits. */
export type Enqueued<Types extends JobTypes = JobTypes> = {
  readonly id: string;
  readonly kind: string;
  /** What the enqueue did. Unless it is `created`, the id may be that of an earlier job with the same dedupe key. */
  readonly status: EnqueueStatus;
  /** Whether the status is `created`. */
  readonly created: boolean;
  /** For the compiler only. */
  readonly types?: Types;
};

/** One entry of `enqueueMany`. Made by `entry(definition, payload, options)`, so that each payload is checked by its own kind. */
export type ManyEntry = {
  readonly job: JobDefinition | string;
  readonly payload: unknown;
  readonly options?: EnqueueOptions;
};

/** Pair a kind with a payload that fits it, for `enqueueMany`. */
export function entry<Types extends JobTypes>(
  definition: JobDefinition<Types>,
  payload: Types["in"],
  options?: EnqueueOptions,
): ManyEntry {
  return { job: definition, payload, ...(options === undefined ? {} : { options }) };
}

/** Enqueues jobs: the client itself, or a transaction bound by `in(tx)`. */
export interface Enqueues {
  enqueue<Types extends JobTypes>(
    job: JobDefinition<Types>,
    payload: Types["in"],
    options?: EnqueueOptions,
  ): Promise<Enqueued<Types>>;
  enqueue(kind: string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  /** All of them, or none. Returns them in the order of the entries. */
  enqueueMany(entries: readonly ManyEntry[]): Promise<Enqueued[]>;
  /**
   * Send a signal to one live job, by its id or its key. Its handler receives it in `waitForSignal`, also if it comes to wait only later.
   * Returns the id of the job.
   *
   * @throws {JobNotFoundError} There is no such job.
   * @throws {WrongStateError} The job has ended.
   * @throws {InvalidOptionError} The kind declares no such signal, or several live jobs have the key.
   */
  signal(target: SignalTarget, name: string, payload?: unknown, options?: SignalSendOptions): Promise<string>;
}

export type InOptions = {
  /**
   * Wake workers by a NOTIFY in your transaction, so that they find its jobs at once. Default: yes, unless the server
   * allows prepared transactions, whose PREPARE TRANSACTION fails after a NOTIFY; workers then find them by polling.
   */
  wake?: boolean;
};

/** @throws {InvalidOptionError} These are not entries. */
export function requireEntries(entries: readonly ManyEntry[]): readonly ManyEntry[] {
  const isEntry = (entry: unknown): boolean => typeof entry === "object" && entry !== null && "job" in entry;
  const given: unknown = entries;
  const wrong = Array.isArray(given) ? given.findIndex((entry) => !isEntry(entry)) : -1;
  if (Array.isArray(given) && wrong === -1) return entries;
  throw new InvalidOptionError(
    wrong === -1 ? "enqueueMany" : `enqueueMany[${wrong}]`,
    wrong === -1
      ? `takes an array of entries made by entry(…), got ${describe(given)}`
      : `must be made by entry(…), got ${describe(entries[wrong])}`,
  );
}

/** The same error, with the index of the entry in its message. */
export function atEntry(error: unknown, index: number): unknown {
  if (!(error instanceof StintError)) return error;
  const { message } = error;
  error.message = `enqueueMany[${index}]: ${message}`;
  error.stack = error.stack?.replace(message, () => error.message) ?? error.message;
  return error;
}

export function toAllEnqueued(rows: readonly EncodedRow[], results: readonly EnqueuedRow[]): Enqueued[] {
  return rows.map((row, index) => toEnqueued(row, results[index]));
}

export function toEnqueued(row: EncodedRow, result: EnqueuedRow | undefined): Enqueued {
  if (result === undefined) throw new Error(`enqueue: the database returned nothing for job ${row.row.id}`);
  return { id: result.id, kind: row.row.kind, status: result.status, created: result.created };
}
