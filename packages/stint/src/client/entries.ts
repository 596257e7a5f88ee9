import type { JobDefinition, JobTypes } from "../define.ts";
import { InvalidOptionError, StintError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import type { EnqueueStatus } from "../model/enqueue-status.ts";
import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";
import type { EnqueueOptions, ManyEntry } from "./prepare.ts";
import { shapingKeys } from "./shaping.ts";

export type { ManyEntry } from "./prepare.ts";
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

/** Pair a kind with a payload that fits it, for `enqueueMany`. */
export function entry<Types extends JobTypes>(
  definition: JobDefinition<Types>,
  payload: Types["in"],
  options?: EnqueueOptions,
): ManyEntry<Types> {
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
  /** A whole graph, all of it or nothing: entries by name, whose `after` may name other parts. */
  flow<Parts extends FlowParts>(name: string, parts: Parts): Promise<Flow<Parts>>;
  /** Jobs with a callback that runs once, when all of them have ended. All of them, or none. */
  batch(entries: readonly ManyEntry[], options: BatchOptions): Promise<Batch>;
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

/** The parts of a flow, by name. In their `after`, a name is another part; an id is a job outside. */
export type FlowParts = Readonly<Record<string, ManyEntry>>;

export type Flow<Parts extends FlowParts = FlowParts> = {
  readonly id: string;
  readonly jobs: { readonly [name in keyof Parts]: Enqueued<TypesOf<Parts[name]>> };
};

type TypesOf<Entry> = Entry extends { readonly types?: infer Types extends JobTypes } ? Types : JobTypes;

export type BatchOptions = {
  /** Enqueued with the batch, and run once, when all of its jobs have ended. */
  onComplete: ManyEntry;
  name?: string;
  /** Take more jobs by `add` until `close` is called. Default: the batch is closed at once. */
  open?: boolean;
};

/** Jobs with a callback. More can be added by `stint.flows.add` while it is open. */
export type Batch = { readonly id: string; readonly jobs: readonly Enqueued[]; readonly callback: Enqueued };

export type InOptions = {
  /**
   * Wake workers by a NOTIFY in your transaction, so that they find its jobs at once. Default: yes, unless the server
   * allows prepared transactions, whose PREPARE TRANSACTION fails after a NOTIFY; workers then find them by polling.
   */
  wake?: boolean;
};

/** @throws {InvalidOptionError} These are not entries. */
export function requireEntries(entries: readonly ManyEntry[], what = "enqueueMany"): readonly ManyEntry[] {
  const isEntry = (entry: unknown): boolean => typeof entry === "object" && entry !== null && "job" in entry;
  const given: unknown = entries;
  const wrong = Array.isArray(given) ? given.findIndex((entry) => !isEntry(entry)) : -1;
  if (Array.isArray(given) && wrong === -1) return entries;
  throw new InvalidOptionError(
    wrong === -1 ? what : `${what}[${wrong}]`,
    wrong === -1
      ? `takes an array of entries made by entry(…), got ${describe(given)}`
      : `must be made by entry(…), got ${describe(entries[wrong])}`,
  );
}

/**
 * Entries of a batch, each a job of its own: an id or a key could lead to a job that exists, and the batch would wait for one that does not.
 * `also` names further options that they cannot have.
 */
export function requireBatchEntries(
  entries: readonly ManyEntry[],
  what: string,
  also: readonly (keyof EnqueueOptions)[] = [],
): readonly ManyEntry[] {
  for (const [index, { options }] of requireEntries(entries, what).entries())
    for (const name of ["id", ...shapingKeys, ...also] as const)
      if (options?.[name] !== undefined)
        throw new InvalidOptionError(`${what}[${index}].${name}`, "cannot be given to a job of a batch");
  return entries;
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
