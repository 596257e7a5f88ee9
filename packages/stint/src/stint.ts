import { readAdmission, type AdmissionOptions, type AdmissionState } from "./client/admission.ts";
import { EnqueueClient } from "./client/enqueue-client.ts";
import type { JobChange } from "./client/change.ts";
import type { Batch, BatchOptions, Enqueued, Enqueues, Flow } from "./client/entries.ts";
import type { FlowParts, InOptions, ManyEntry } from "./client/entries.ts";
import { FlowsClient } from "./client/flows.ts";
import { idOf } from "./client/ids.ts";
import type { InTransaction } from "./client/in-transaction.ts";
import { Jobs, type ActOptions, type ListOptions, type Page } from "./client/jobs.ts";
import { Lifetime } from "./client/lifetime.ts";
import { dbOpener, type OpenDbOptions } from "./client/open-db.ts";
import type { ResolvedStintOptions } from "./client/options.ts";
import { DependenciesClient } from "./client/dependencies.ts";
import { PausesClient } from "./client/pauses.ts";
import type { EnqueueOptions } from "./client/prepare.ts";
import { LimitsClient } from "./client/limits.ts";
import { QueueSettingsClient } from "./client/queue-settings.ts";
import { withRetry } from "./client/retry.ts";
import type { SignalSendOptions, SignalTarget } from "./client/signals.ts";
import { SchedulesClient } from "./client/schedules.ts";
import { readSteps, type JobSteps } from "./client/steps.ts";
import { Waiting } from "./client/wait.ts";
import { waitFor, type WaitedJob, type WaitFor, type WaitOptions } from "./client/wait-for.ts";
import { Waker } from "./client/waker.ts";
import type { PgDb } from "./db/pg.ts";
import type { TransactionLike } from "./db/transactions/user-transaction.ts";
import type { JobDefinition, JobTypes } from "./define.ts";
import { makeInspector } from "./inspect/inspector.ts";
import { resolveInspector } from "./inspect/options.ts";
import type { Inspector, InspectorOptions } from "./inspect/types.ts";
import type { Job } from "./model/job.ts";
import type { AuditEntry } from "./sql/audit.ts";
import { queues, type QueueCounts } from "./sql/queues.ts";
import { listWorkers, type LiveWorker } from "./sql/workers.ts";
import { version } from "./version.ts";
import { OpenWorkers } from "./worker/open-workers.ts";
import { resolveWorkerOptions, type WorkerOptions } from "./worker/options.ts";
import { Worker } from "./worker/worker.ts";
import { requireWorkerConnection } from "./worker/worker-connection.ts";

/** The client. Safe to share; opens connections only when they are needed. */
export class Stint implements Enqueues {
  /** Settings of queues: `set` changes one live, `list` and `audit` show them. */
  readonly queueSettings: QueueSettingsClient;
  /** Schedules that are made at run time, and what became of the slots of every schedule. */
  readonly schedules: SchedulesClient;
  readonly #options: ResolvedStintOptions;
  readonly #openDb: (options: OpenDbOptions) => PgDb;
  readonly #db: PgDb;
  readonly #lockWaitDb: PgDb;
  readonly #waker: Waker;
  readonly #enqueues: EnqueueClient;
  readonly #jobs: Jobs;
  readonly #waiting: Waiting;
  readonly #workers = new OpenWorkers();
  readonly #inspectors = new Set<Inspector>();
  readonly #lifetime = new Lifetime();

  constructor(options: ResolvedStintOptions) {
    this.#options = options;
    this.#openDb = dbOpener(options);
    this.#db = this.#openDb({ connections: options.connections });
    this.#lockWaitDb = this.#openDb({ connections: 4, clock: this.#db.clock });
    this.#waker = new Waker(this.#db);
    this.#enqueues = new EnqueueClient(options, this.#db, this.#lockWaitDb, this.#waker);
    const ready = (): Promise<void> => this.#enqueues.checkSchema();
    const { actor } = options;
    const encoders = this.#enqueues;
    this.#jobs = new Jobs(this.#db, { actor, wake: (hint) => this.#wake([hint]), ready, encoders });
    this.#waiting = new Waiting(this.#db, { ...options, remind: () => this.#wake(["waiting"]) });
    this.queueSettings = new QueueSettingsClient(this.#db, options.actor, (call) => this.#lifetime.run(call));
    this.schedules = new SchedulesClient(this.#db, {
      ...options,
      find: (job) => this.#enqueues.kinds.find(job),
      whileOpen: (call) => this.#lifetime.run(call),
      ready,
      wake: () => this.#wake(["schedule"]),
    });
  }

  /**
   * Work in your transaction: its jobs, signals and changes exist exactly if it commits.
   *
   * @throws {InvalidOptionError} This is not a transaction.
   */
  in(tx: TransactionLike, options: InOptions = {}): InTransaction {
    return this.#enqueues.in(tx, options, this.schedules);
  }

  /**
   * Add a job, committed by the time this resolves. Calls made while another is on its way share a round trip.
   *
   * @throws {InvalidPayloadError} The payload does not fit, or would not survive JSON.
   * @throws {UnknownOutcomeError} The connection was lost and could not be restored: repeat with the id it names.
   */
  async enqueue<Types extends JobTypes>(
    job: JobDefinition<Types>,
    payload: Types["in"],
    options?: EnqueueOptions,
  ): Promise<Enqueued<Types>>;
  async enqueue(kind: string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  async enqueue(job: JobDefinition | string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued> {
    return await this.#lifetime.run(() => this.#enqueues.one(job, payload, options));
  }

  async enqueueMany(entries: readonly ManyEntry[]): Promise<Enqueued[]>;
  /** With `onError: "report"` each entry succeeds or fails by itself; an Error takes the place of one that failed. */
  async enqueueMany(
    entries: readonly ManyEntry[],
    options: { onError: "report" },
  ): Promise<(Enqueued | Error)[]>;
  async enqueueMany(
    entries: readonly ManyEntry[],
    options: { onError?: "throw" | "report" } = {},
  ): Promise<(Enqueued | Error)[]> {
    return await this.#lifetime.run(() => this.#enqueues.anyOf(entries, options));
  }

  async signal(
    target: SignalTarget,
    name: string,
    payload?: unknown,
    options: SignalSendOptions = {},
  ): Promise<string> {
    return await this.#lifetime.run(() => this.#enqueues.signal(target, name, payload, options));
  }

  async flow<Parts extends FlowParts>(name: string, parts: Parts): Promise<Flow<Parts>> {
    return await this.#lifetime.run(() => this.#enqueues.flow(name, parts));
  }

  async batch(entries: readonly ManyEntry[], options: BatchOptions): Promise<Batch> {
    return await this.#lifetime.run(() => this.#enqueues.batch(entries, options));
  }

  /** How many jobs may run at once: `set` changes a limit live, `keys` shows which jobs hold and wait for places. */
  get limits(): LimitsClient {
    return new LimitsClient(this.#db, this.#options.actor, (call) => this.#lifetime.run(call));
  }

  /** Outside systems that jobs use: `list` and `get` show what is left of their limits, `set` changes them live. */
  get dependencies(): DependenciesClient {
    return new DependenciesClient(this.#db, this.#options.actor, (call) => this.#lifetime.run(call));
  }

  /** Flows, chains and batches as a whole: `list`, `get`, `cancel`, `add`, `close`. */
  get flows(): FlowsClient {
    return new FlowsClient(this.#db, this.#enqueues, this.#options.actor, (call) => this.#lifetime.run(call));
  }

  /** Pauses of queues, kinds, tenants and keys: `pause`, `resume`, `list` and `audit`. */
  get pauses(): PausesClient {
    return new PausesClient(this.#db, this.#options.actor, this.#waker, (call) => this.#lifetime.run(call));
  }

  /** A job, live or finished; undefined if there is none. */
  async get<Types extends JobTypes>(
    job: Enqueued<Types> | string,
  ): Promise<Job<Types["in"], Types["result"]> | undefined> {
    return await this.#lifetime.run(() => this.#jobs.get(idOf(job, "get(job).id")));
  }

  /** Who cancelled, replayed or ran a job now, when and why; oldest first. */
  async audit(job: Enqueued | string): Promise<AuditEntry[]> {
    return await this.#lifetime.run(() => this.#jobs.audit(idOf(job, "id")));
  }

  /** Jobs, newest first, a page at a time. */
  async list(options: ListOptions = {}): Promise<Page> {
    return await this.#lifetime.run(() => this.#jobs.list(options));
  }

  /**
   * End a waiting job ("cancelled"), or ask the worker that runs it to stop ("asked"). Either way no further attempt starts.
   *
   * @throws {WrongStateError} It has ended already.
   */
  async cancel(job: Enqueued | string, options: ActOptions = {}): Promise<"cancelled" | "asked"> {
    return await this.#lifetime.run(() => this.#jobs.cancel(idOf(job, "id"), options));
  }

  /** Make a scheduled, retrying or parked job ready at once. */
  async runNow(job: Enqueued | string, options: ActOptions = {}): Promise<void> {
    await this.#lifetime.run(() => this.#jobs.runNow(idOf(job, "id"), options));
  }

  /**
   * End a job that no worker runs as succeeded, with this result: its work was done by a person, a webhook or another system. A job that is
   * scheduled, as the deadline of an approval, never runs then. The audit records who and why.
   *
   * @throws {WrongStateError} It runs, or has ended.
   * @throws {InvalidPayloadError} The result does not fit the schema of its kind, or would not survive JSON.
   */
  async complete<Types extends JobTypes>(
    job: Enqueued<Types> | string,
    result?: Types["result"],
    options: ActOptions = {},
  ): Promise<void> {
    await this.#lifetime.run(() => this.#jobs.complete(idOf(job, "complete(job)"), result, options));
  }

  /**
   * Change the payload, the run time or the priority of a waiting job. The audit records who, what and why.
   *
   * @throws {WrongStateError} It runs, has ended, or is parked in a way that forbids the change.
   * @throws {InvalidPayloadError} The payload does not fit the schema of its kind, or would not survive JSON.
   */
  async change<Types extends JobTypes>(
    job: Enqueued<Types> | string,
    change: JobChange<Types>,
    options: ActOptions = {},
  ): Promise<void> {
    await this.#lifetime.run(() => this.#jobs.change(idOf(job, "change(job)"), change, options));
  }

  /** What a job remembers and reports: its steps, progress, log lines, and signals it has not received. */
  async steps(job: Enqueued | string): Promise<JobSteps> {
    return await this.#lifetime.run(() => readSteps(this.#db, idOf(job, "steps(job)")));
  }

  /** Requeue a dead or cancelled job with a fresh set of attempts. Its history stays; the audit records who and why. */
  async replay(job: Enqueued | string, options: ActOptions & { reason: string }): Promise<void> {
    await this.#lifetime.run(() => this.#jobs.replay(idOf(job, "id"), options));
  }

  /** Wait for a job to succeed, or for several, and return their results. */
  readonly waitFor: WaitFor = async (jobs: WaitedJob | readonly WaitedJob[], options?: WaitOptions) => {
    this.#lifetime.requireOpen();
    return (await waitFor(this.#waiting, jobs, options ?? {})) as never;
  };

  /** How many jobs each queue holds, by state. */
  async queues(): Promise<QueueCounts[]> {
    return await this.#lifetime.run(() => withRetry(this.#db, queues));
  }

  /** What an enqueue to a queue, of a tenant, would meet now, and how full the queue is, from a sample of at most a second ago. */
  async admission(queue: string, options: AdmissionOptions = {}): Promise<AdmissionState> {
    return await this.#lifetime.run(() => readAdmission(this.#db, queue, options));
  }

  /** The live workers. */
  async workers(): Promise<LiveWorker[]> {
    return await this.#lifetime.run(() => withRetry(this.#db, listWorkers));
  }

  /**
   * Look at the installation as the dashboard and `stint top` do: on connections of its own, each statement within a time
   * limit. Close it when it is no longer needed; closing the client closes it, too.
   */
  inspector(options: InspectorOptions = {}): Inspector {
    this.#lifetime.requireOpen();
    const forget = (): boolean => this.#inspectors.delete(made);
    const made = makeInspector(this.#openDb(resolveInspector(options)), (hint) => this.#wake([hint]), forget);
    this.#inspectors.add(made);
    return made;
  }

  /** Make a worker. It does nothing until it is started. */
  worker(options: WorkerOptions): Worker {
    this.#lifetime.requireNotClosing();
    const resolved = resolveWorkerOptions(options);
    for (const handler of resolved.handlers.values()) this.#enqueues.kinds.add(handler.definition);
    const { connection: given, maxPayloadBytes: maxResultBytes } = this.#options;
    const own = { connection: requireWorkerConnection(given), db: this.#db, version, maxResultBytes };
    const deps = {
      ...this.#options,
      ...own,
      listen: (listener: (hint: string) => void) => this.#waker.listen(listener),
      notify: (hints: readonly string[], jobs?: number) => this.#wake(hints, jobs),
      onEnded: (ids: readonly string[]) => this.#waiting.reported(ids),
    };
    return this.#workers.add(new Worker(deps, resolved));
  }

  /** Stop the workers and inspectors made here, finish what is on its way, and close every connection. */
  async close(): Promise<void> {
    await this.#lifetime.close({
      // Handlers that drain may enqueue, and must be able to record their outcomes.
      whileOpen: () => this.#enqueues.closeHooks(this.#workers.stop()),
      onClosed: async () => {
        // Inspectors with their bulk operations, which would otherwise keep the process alive.
        await Promise.allSettled([...this.#inspectors, this.#waiting].map((each) => each.close()));
      },
      onIdle: async () => {
        await this.#waker.idle();
        await Promise.all([this.#db.close(), this.#lockWaitDb.close()]);
      },
    });
  }

  #wake(hints: readonly string[], jobs?: number): void {
    this.#waker.wake(hints, this.#options.wake !== "none", jobs);
  }
}
