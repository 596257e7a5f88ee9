import { withRetry } from "./client/retry.ts";
import { Enqueuer } from "./client/enqueue.ts";
import { enqueueIn, refusedQuietly, type Traced } from "./client/enqueue-in.ts";
import { requireId } from "./client/ids.ts";
import { Jobs, type ActOptions, type ListOptions, type Page } from "./client/jobs.ts";
import { Kinds } from "./client/kinds.ts";
import { dbOpener, type OpenDbOptions } from "./client/open-db.ts";
import { resolveStintOptions, type ResolvedStintOptions, type StintOptions } from "./client/options.ts";
import { QueueSettingsClient } from "./client/queue-settings.ts";
import { prepareRow, type EnqueueOptions } from "./client/prepare.ts";
import { traced } from "./client/traced.ts";
import { Waiting } from "./client/wait.ts";
import { Waker } from "./client/waker.ts";
import type { JobDefinition, JobTypes } from "./define.ts";
import { makeInspector } from "./inspect/inspector.ts";
import type { Inspector } from "./inspect/types.ts";
import type { Connection } from "./db/connection.ts";
import type { PgDb } from "./db/pg.ts";
import { UserTransaction, type TransactionLike } from "./db/transactions/user-transaction.ts";
import { InvalidOptionError, StintError, TransactionRequiredError } from "./errors.ts";
import { describe } from "./model/describe.ts";
import { toMs, type Duration } from "./model/duration.ts";
import type { Job } from "./model/job.ts";
import { isThenable } from "./model/standard-schema.ts";
import { refuseUnknownKeys, requireBoolean, requireInteger, requireOneOf } from "./model/options.ts";
import { InFlight } from "./runtime/in-flight.ts";
import type { AuditEntry } from "./sql/audit.ts";
import { queues, type QueueCounts } from "./sql/queues.ts";
import type { EncodedRow, EnqueuedRow } from "./sql/enqueue.ts";
import { listWorkers, type LiveWorker } from "./sql/workers.ts";
import { checkSchemaVersion } from "./sql/schema-version.ts";
import { version } from "./version.ts";
import { resolveWorkerOptions, type WorkerOptions } from "./worker/options.ts";
import { Worker } from "./worker/worker.ts";

/** A job that is in the database, or will be when its transaction commits. */
export type Enqueued<Types extends JobTypes = JobTypes> = {
  readonly id: string;
  readonly kind: string;
  /** False: a job with the same dedupe key was there already, and this is its id. */
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

/** What can be enqueued into: the client itself, or a transaction bound by `in(tx)`. */
export interface Enqueues {
  enqueue<Types extends JobTypes>(
    job: JobDefinition<Types>,
    payload: Types["in"],
    options?: EnqueueOptions,
  ): Promise<Enqueued<Types>>;
  enqueue(kind: string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  /** All of them, or none. Answers are in the order of the entries. */
  enqueueMany(entries: readonly ManyEntry[]): Promise<Enqueued[]>;
}

export type InOptions = {
  /**
   * Wake workers by a NOTIFY in your transaction, so that they find its jobs at once. Default: yes, unless the server
   * allows prepared transactions, whose PREPARE TRANSACTION fails after a NOTIFY; workers then find them by polling.
   */
  wake?: boolean;
};

export type InspectorOptions = {
  /** Connections of its own. Default 2. */
  connections?: number;
  /** How long the database may work on one question. Default "5s". */
  timeout?: Duration;
};

/** The client. Safe to share; opens connections only when they are needed. */
export class Stint implements Enqueues {
  /** Settings of queues: `set` changes one live, `list` and `audit` show them. */
  readonly queueSettings: QueueSettingsClient;
  readonly #options: ResolvedStintOptions;
  readonly #openDb: (options: OpenDbOptions) => PgDb;
  readonly #db: PgDb;
  readonly #lockWaitDb: PgDb;
  readonly #enqueuer: Enqueuer;
  readonly #waker: Waker;
  readonly #waiting: Waiting;
  readonly #jobs: Jobs;
  readonly #kinds: Kinds;
  /** Those that may run, and how each comes to its end. */
  readonly #workers = new Map<Worker, () => Promise<unknown>>();
  readonly #inspectors = new Set<Inspector>();
  readonly #calls = new InFlight();
  #checked: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #closed = false;

  constructor(options: ResolvedStintOptions) {
    this.#options = options;
    this.#kinds = new Kinds(options.jobs);
    this.#openDb = dbOpener(options);
    this.#db = this.#openDb({ connections: options.connections });
    this.#lockWaitDb = this.#openDb({ connections: 4, clock: this.#db.clock });
    this.#waker = new Waker(this.#db);
    this.#enqueuer = new Enqueuer({
      db: this.#db,
      lockWaitDb: this.#lockWaitDb,
      ready: () => this.#checkSchema(),
      wakes: () => options.wake !== "none" && this.#waker.ridesAlong(),
      onEnqueued: (rows, answers, woke) =>
        this.#waker.enqueued(rows, answers, options.wake !== "none" && !woke),
    });
    this.#waiting = new Waiting(this.#db);
    this.queueSettings = new QueueSettingsClient(this.#db, options.actor, (work) => this.#whileOpen(work));
    this.#jobs = new Jobs(this.#db, options.actor, (hint) =>
      this.#waker.tell([hint], options.wake !== "none"),
    );
  }

  /**
   * Enqueue in your transaction: the jobs exist exactly if it commits.
   *
   * @throws {InvalidOptionError} This is not a transaction.
   */
  in(tx: TransactionLike, options: InOptions = {}): Enqueues {
    refuseUnknownKeys("stint.in", options, ["wake"]);
    const { schema, logger } = this.#options;
    const wake = options.wake === undefined ? undefined : requireBoolean("stint.in.wake", options.wake);
    const notify = this.#options.wake === "none" ? false : wake;
    const inside = new UserTransaction(tx, schema);
    const send = async (rows: EncodedRow[] | Promise<EncodedRow[]>): Promise<Enqueued[]> => {
      const traced: Traced = (all, sent) => this.#traced(all, sent);
      const answers = await enqueueIn(inside, rows, { notify, schema, traced });
      return toAllEnqueued(await rows, answers);
    };
    const onRefused = (error: Error): void =>
      logger.error({ err: error }, "an enqueue was refused because its transaction was over");
    return {
      // Nothing is awaited before the statement is sent: a ROLLBACK of a caller that does not wait must come after it.
      enqueue: (job: JobDefinition | string, payload: unknown, options?: EnqueueOptions) => {
        const one = async (): Promise<Enqueued> => {
          const row = this.#prepare({ job, payload, ...(options === undefined ? {} : { options }) }, false);
          const [enqueued] = await send(isThenable(row) ? row.then((ready) => [ready]) : [row]);
          return enqueued as Enqueued;
        };
        return refusedQuietly(one(), onRefused);
      },
      enqueueMany: (entries) => {
        const all = async (): Promise<Enqueued[]> => await send(this.#prepareAll(entries, false));
        return refusedQuietly(all(), onRefused);
      },
    };
  }

  /**
   * Add a job, committed by the time this resolves. Calls made while another is on its way share a round trip.
   *
   * @throws {InvalidPayloadError} The payload does not fit, or would not survive JSON.
   * @throws {UnknownOutcomeError} The connection was lost and could not be had again: repeat with the id it names.
   */
  async enqueue<Types extends JobTypes>(
    job: JobDefinition<Types>,
    payload: Types["in"],
    options?: EnqueueOptions,
  ): Promise<Enqueued<Types>>;
  async enqueue(kind: string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  async enqueue(job: JobDefinition | string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued> {
    return await this.#whileOpen(async () => {
      const row = await this.#prepare({ job, payload, ...(options === undefined ? {} : { options }) }, true);
      const { telemetry } = this.#options;
      if (telemetry === undefined) return toEnqueued(row, await this.#enqueuer.one(row));
      const send = ([one = row]: readonly EncodedRow[]): Promise<EnqueuedRow> => this.#enqueuer.one(one);
      return toEnqueued(row, await traced(telemetry, [row], send));
    });
  }

  async enqueueMany(entries: readonly ManyEntry[]): Promise<Enqueued[]>;
  /** With `onError: "report"` each entry succeeds or fails by itself; an Error stands in the place of one that failed. */
  async enqueueMany(
    entries: readonly ManyEntry[],
    options: { onError: "report" },
  ): Promise<(Enqueued | Error)[]>;
  async enqueueMany(
    entries: readonly ManyEntry[],
    options: { onError?: "throw" | "report" } = {},
  ): Promise<(Enqueued | Error)[]> {
    refuseUnknownKeys("enqueueMany", options, ["onError"]);
    const onError = requireOneOf("enqueueMany.onError", options.onError ?? "throw", ["throw", "report"]);
    return await this.#whileOpen(async () => {
      if (onError === "report") return await this.#report(entries);
      const rows = await this.#prepareAll(entries, true);
      if (rows.length === 0) return [];
      return toAllEnqueued(rows, await this.#traced(rows, (all) => this.#enqueuer.send(all)));
    });
  }

  /** A job as it stands, live or finished; undefined if there is none. */
  async get<Types extends JobTypes>(
    job: Enqueued<Types> | string,
  ): Promise<Job<Types["in"], Types["result"]> | undefined> {
    return await this.#whileOpen(() => this.#jobs.get(idOf(job, "get(job).id")));
  }

  /** Who cancelled, replayed or ran a job now, when and why; oldest first. */
  async audit(id: string): Promise<AuditEntry[]> {
    return await this.#whileOpen(() => this.#jobs.audit(id));
  }

  /** Jobs, newest first, a page at a time. */
  async list(options: ListOptions = {}): Promise<Page> {
    return await this.#whileOpen(() => this.#jobs.list(options));
  }

  /**
   * End a job that waits ("cancelled"), or ask the worker that runs it to stop ("asked"). Either way no further attempt starts.
   *
   * @throws {WrongStateError} It has ended already.
   */
  async cancel(id: string, options: ActOptions = {}): Promise<"cancelled" | "asked"> {
    return await this.#whileOpen(() => this.#jobs.cancel(id, options));
  }

  /** Make a job that waits for its time, its retry or a person ready at once. */
  async runNow(id: string, options: ActOptions = {}): Promise<void> {
    await this.#whileOpen(() => this.#jobs.runNow(id, options));
  }

  /** Send a dead or cancelled job round again, with fresh attempts and its history kept. Says who did it and why. */
  async replay(id: string, options: ActOptions & { reason: string }): Promise<void> {
    await this.#whileOpen(() => this.#jobs.replay(id, options));
  }

  /**
   * Wait for a job to succeed, and get its result.
   *
   * @throws {JobFailedError} It ended otherwise.
   * @throws {WaitTimeoutError} It has not ended in time; it goes on.
   */
  async waitFor<Types extends JobTypes>(
    job: Enqueued<Types> | string,
    options: { timeout?: Duration; signal?: AbortSignal } = {},
  ): Promise<Types["result"]> {
    refuseUnknownKeys("waitFor", options, ["timeout", "signal"]);
    this.#requireOpen();
    const id = idOf(job, "waitFor(job)");
    if (options.signal !== undefined && !(options.signal instanceof AbortSignal))
      throw new InvalidOptionError(
        "waitFor.signal",
        `must be an AbortSignal, got ${describe(options.signal)}`,
      );
    const timeoutMs = options.timeout === undefined ? undefined : toMs(options.timeout, "waitFor.timeout");
    return await this.#waiting.for(id, timeoutMs, options.signal);
  }

  /** How many jobs each queue holds, by state. */
  async queues(): Promise<QueueCounts[]> {
    return await this.#whileOpen(() => withRetry(this.#db, queues));
  }

  /** The workers that live. */
  async workers(): Promise<LiveWorker[]> {
    return await this.#whileOpen(() => withRetry(this.#db, listWorkers));
  }

  /**
   * Look at the installation as the dashboard and `stint top` do: on connections of its own, each statement within a time
   * limit. Close it when it is no longer needed; `close` of the client closes it, too.
   */
  inspector(options: InspectorOptions = {}): Inspector {
    this.#requireOpen();
    refuseUnknownKeys("inspector", options, ["connections", "timeout"]);
    const connections = requireInteger("inspector.connections", options.connections ?? 2, {
      min: 1,
      max: 20,
    });
    const timeoutMs = toMs(options.timeout ?? "5s", "inspector.timeout");
    const db = this.#openDb({
      connections,
      applicationName: "stint inspector",
      statementTimeoutMs: timeoutMs,
    });
    const tell = (hint: string): void => this.#waker.tell([hint], this.#options.wake !== "none");
    // One that was closed is let go of: a program may make one for each question it has.
    const inspector = makeInspector(db, tell, () => this.#inspectors.delete(inspector));
    this.#inspectors.add(inspector);
    return inspector;
  }

  /** Make a worker. It does nothing until it is started. */
  worker(options: WorkerOptions): Worker {
    if (this.#closing !== undefined) throw closedError();
    const resolved = resolveWorkerOptions(options);
    for (const handler of resolved.handlers.values()) this.#kinds.add(handler.definition);
    const { connection, prepare, wake, maxPayloadBytes, logger, telemetry, queues } = this.#options;
    if (connection === undefined) throw needsConnections();
    requirePassable(connection);
    const worker = new Worker(
      {
        db: this.#db,
        connection,
        prepare,
        wake,
        maxResultBytes: maxPayloadBytes,
        version,
        logger,
        telemetry,
        queues,
        listen: (listener) => this.#waker.listen(listener),
        notify: (hints) => this.#waker.tell(hints, wake !== "none"),
      },
      resolved,
    );
    this.#keep(worker);
    return worker;
  }

  /** Stop the workers and inspectors made here, finish what is on its way, and close every connection. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    // Open until they have stopped: what drains may still enqueue, and must be able to record how it ended.
    if (this.#workers.size > 0) await Promise.allSettled([...this.#workers.values()].map((end) => end()));
    this.#closed = true;
    // With what they have under way: a bulk operation would otherwise keep the process alive.
    await Promise.allSettled([...this.#inspectors].map((inspector) => inspector.close()));
    this.#waiting.close();
    await this.#calls.idle();
    await this.#waker.idle();
    await Promise.all([this.#db.close(), this.#lockWaitDb.close()]);
  }

  #keep(worker: Worker): void {
    const stopped = new Promise<void>((resolve) => {
      worker.on("stopped", () => {
        this.#workers.delete(worker);
        resolve();
      });
    });
    this.#workers.set(worker, () => worker.stop());
    // A second stop would cut short the draining that somebody else began.
    worker.on("stopping", () => this.#workers.set(worker, () => stopped));
  }

  /** Closing waits for the call. */
  async #whileOpen<T>(call: () => Promise<T>): Promise<T> {
    this.#requireOpen();
    return await this.#calls.run(call);
  }

  #requireOpen(): void {
    if (this.#closed) throw closedError();
  }

  /** At once where the kind's schema is synchronous. */
  #prepare(entry: ManyEntry, outside: boolean): EncodedRow | Promise<EncodedRow> {
    const definition = this.#kinds.find(entry.job);
    if (outside && definition.requiresTransaction) throw new TransactionRequiredError(definition.kind);
    return prepareRow(definition, entry.payload, entry.options ?? {}, this.#options.maxPayloadBytes);
  }

  #prepareAll(entries: readonly ManyEntry[], outside: boolean): EncodedRow[] | Promise<EncodedRow[]> {
    const rows = requireEntries(entries).map((entry, index) => {
      const refuse = (error: unknown): never => {
        throw atEntry(error, index);
      };
      try {
        const row = this.#prepare(entry, outside);
        return isThenable(row) ? row.catch(refuse) : row;
      } catch (error) {
        // With those that are checked later: each of them may fail, and none may go unhandled.
        return Promise.reject<EncodedRow>(atEntry(error, index));
      }
    });
    if (!rows.some((row) => isThenable(row))) return rows as EncodedRow[];
    return Promise.all(rows.map(async (row) => await row));
  }

  /** Send rows, within a trace if there is telemetry. */
  #traced<T>(rows: readonly EncodedRow[], send: (rows: readonly EncodedRow[]) => Promise<T>): Promise<T> {
    const { telemetry } = this.#options;
    return telemetry === undefined ? send(rows) : traced(telemetry, rows, send);
  }

  async #report(entries: readonly ManyEntry[]): Promise<(Enqueued | Error)[]> {
    const prepared = await Promise.allSettled(
      requireEntries(entries).map(async (entry) => await this.#prepare(entry, true)),
    );
    const good = prepared.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const answers = good.length === 0 ? [] : await this.#traced(good, (all) => this.#enqueuer.sendApart(all));
    let next = 0;
    return prepared.map((one, index) => {
      if (one.status === "rejected") return atEntry(one.reason, index) as Error;
      const answer = answers[next++];
      return answer instanceof Error ? answer : toEnqueued(one.value, answer);
    });
  }

  /** Once per client, before its first own write. A schema that does not fit is refused until it does. */
  async #checkSchema(): Promise<void> {
    this.#checked ??= checkSchemaVersion(this.#db, this.#options.schema).catch((error: unknown) => {
      this.#checked = undefined;
      throw error;
    });
    await this.#checked;
  }
}

function idOf(job: Enqueued | string, option: string): string {
  return requireId(typeof job === "string" ? job : (job as Enqueued | undefined)?.id, option);
}

function requireEntries(entries: readonly ManyEntry[]): readonly ManyEntry[] {
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

/** The same error, saying which entry it speaks of. */
function atEntry(error: unknown, index: number): unknown {
  if (!(error instanceof StintError)) return error;
  const { message } = error;
  error.message = `enqueueMany[${index}]: ${message}`;
  error.stack = error.stack?.replace(message, () => error.message) ?? error.message;
  return error;
}

function closedError(): InvalidOptionError {
  return new InvalidOptionError("stint", "was closed. Make another client with createStint(…)");
}

function needsConnections(): InvalidOptionError {
  return new InvalidOptionError(
    "stint.worker",
    "needs connections of its own, and this client uses your pool. Make another client for the worker: createStint({ database: <connection string> })",
  );
}

/** Leases are kept on a thread of their own, which connects by itself. Of functions, only the password's can be asked for from there. */
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

function toAllEnqueued(rows: readonly EncodedRow[], answers: readonly EnqueuedRow[]): Enqueued[] {
  return rows.map((row, index) => toEnqueued(row, answers[index]));
}

function toEnqueued(row: EncodedRow, answer: EnqueuedRow | undefined): Enqueued {
  if (answer === undefined) throw new Error(`enqueue: the database gave no answer for job ${row.row.id}`);
  return { id: answer.id, kind: row.row.kind, created: answer.created };
}

/**
 * Make a client.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function createStint(options: StintOptions = {}): Stint {
  return new Stint(resolveStintOptions(options));
}
