import type { Listener } from "../db/listener.ts";
import { Semaphore } from "../db/semaphore.ts";
import { InvalidOptionError, StoppingError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { refuseUnknownKeys, requireOneOf } from "../model/options.ts";
import { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { settledWithin } from "../runtime/sleep.ts";
import { Meter } from "../telemetry/meter.ts";
import type { PoolView } from "../telemetry/process-metrics.ts";
import type { IdleCheck } from "../sql/idle-check.ts";
import { checkSchemaVersion } from "../sql/schema-version.ts";
import type { Vitals } from "../sql/series.ts";
import { beat, forgetWorker, type WorkerState } from "../sql/workers.ts";
import { Upkeep } from "../upkeep/upkeep.ts";
import type { Attempt } from "./attempt.ts";
import { workerEventNames, type StopReport, type WorkerEvents } from "./events.ts";
import { reportRescued } from "./failures.ts";
import type { WorkerDeps } from "./deps.ts";
import { Leases } from "./leases.ts";
import { logEvents } from "./log-events.ts";
import { logTotals } from "./log-totals.ts";
import { Claimer } from "./claimer.ts";
import { Metering } from "./metering.ts";
import { EventLoopLag } from "./event-loop-lag.ts";
import { ClaimLoop } from "./loop.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import { infoOf, leasesOf, register } from "./registration.ts";
import { isCrashSuspect, timeoutOf } from "./policy.ts";
import { Running } from "./running.ts";
import { Settler } from "./settler.ts";
import { defaultPollMs } from "./poll.ts";
import { stopOnSignals } from "./process-signals.ts";
import { Slots } from "./slots.ts";
import { SleepMode } from "./sleep-mode.ts";
import { SlowWatch } from "./slow-watch.ts";
import { TransactionGate } from "./transaction-gate.ts";
import { released } from "./verdict.ts";
import { newWorkerId } from "./worker-id.ts";
import { vitalsOf } from "./vitals.ts";
import { wakeListener } from "./wake-listener.ts";

/** Where a worker stands. */
export type WorkerStanding = "new" | "starting" | "running" | "stopping" | "stopped";

const deafAfterMs = 500;
/** What a stop may take on top of `drain` and `abort`, each: to record and hand back, to end its loops, to say goodbye. */
const recordWithinMs = 2_000;
const endWithinMs = 1_000;

/** Claims and runs jobs. Made by `stint.worker(…)`. */
export class Worker {
  readonly id: string;
  /** What it has counted since it began. */
  readonly meter = new Meter();
  readonly #deps: WorkerDeps;
  readonly #options: ResolvedWorkerOptions;
  readonly #logger: Logger;
  readonly #events: Emitter<WorkerEvents>;
  readonly #metering = new Metering(this.meter);
  readonly #slots: Slots;
  readonly #settler: Settler;
  readonly #leases: Leases;
  readonly #running: Running;
  readonly #claimer: Claimer;
  readonly #loop: ClaimLoop;
  readonly #listener: Listener | undefined;
  readonly #upkeep: Upkeep;
  readonly #sleepMode: SleepMode;
  readonly #slow: SlowWatch<Attempt>;
  readonly #loopLag = new EventLoopLag(() => this.#slow.look());
  readonly #stopping = new AbortController();
  readonly #hurrying = new AbortController();
  readonly #beats = new Semaphore(1);
  #hears = false;
  #wakesMissing = false;
  #glancedAt = 0;
  #started: Promise<void> | undefined;
  #looping: Promise<void> | undefined;
  #stopped: Promise<StopReport> | undefined;
  #ended = false;
  #undo: (() => void)[] = [];

  constructor(deps: WorkerDeps, options: ResolvedWorkerOptions) {
    const { db } = deps;
    this.#deps = deps;
    this.#options = options;
    this.id = newWorkerId(options.name);
    this.#logger = deps.logger.child({ worker: this.id });
    this.#events = new Emitter((error, name) =>
      this.#logger.error({ err: error, event: name }, "a listener threw"),
    );
    logEvents(this.#events, this.#logger, { attempts: options.logAttempts });
    logTotals(this.#events, this.meter, this.#logger);

    this.#slots = new Slots(options.pools, (job) => isCrashSuspect(options, job), options.prefetchMs > 0);
    const { telemetry } = deps;
    this.#settler = new Settler(
      db,
      this.#logger,
      telemetry && ((ended, tookMs) => telemetry.settled?.(ended, tookMs, this.id)),
    );
    this.#leases = new Leases({
      connection: deps.connection,
      schema: db.schema,
      prepare: deps.prepare,
      applicationName: `stint leases ${this.id}`.slice(0, 63),
      wake: deps.wake !== "none",
      prefetchMs: options.prefetchMs,
      logger: this.#logger,
      listener: {
        lost: (fence) => this.#running.lost(fence),
        cancelled: (fence) => this.#running.cancelled(fence),
        released: (queues) => {
          this.#slots.forgetReleased();
          for (const queue of queues) this.#loop.hint(queue);
          this.#loop.roomMade();
        },
        blocked: (ms, kinds) => this.#events.emit("blocked", { ms, kinds }),
        renewable: () => this.#loop.roomMade(),
      },
    });
    const gate = new TransactionGate({
      db,
      handlers: options.handlers,
      logger: this.#logger,
      stopping: this.#stopping.signal,
      onOpened: () => this.#loop.hint(),
    });
    this.#running = new Running({
      db,
      worker: this.id,
      telemetry: deps.telemetry,
      options,
      maxResultBytes: deps.maxResultBytes,
      slots: this.#slots,
      leases: this.#leases,
      settler: this.#settler,
      metering: this.#metering,
      gate,
      events: this.#events,
      logger: this.#logger,
      onAccepted: () => this.#sleepMode.activity(),
      onFreed: (queue) => this.#loop.freed(queue),
      onPutBack: (queue, delayMs) => {
        if (delayMs <= 0) this.#tell([queue]);
        else this.#upkeep.promoteIn(delayMs);
      },
    });
    this.#slow = new SlowWatch({
      attempts: () => this.#running.attempts,
      timeoutOf: (job) => timeoutOf(options, job),
      onSlow: ({ job, ms, usualMs, because }) => {
        this.#metering.slow(job);
        const { fence, kind, queue } = job;
        this.#events.emit("slow", { id: fence.job, kind, queue, ms, usualMs, because });
      },
    });
    this.#claimer = new Claimer({
      db,
      worker: this.id,
      queues: this.#slots.queues,
      kinds: () => gate.kinds,
      ...leasesOf(options),
      onFound: (jobs, sentAt) => this.#running.accept(jobs, sentAt),
      onReleased: (queues) => this.#tell(queues),
    });
    this.#loop = new ClaimLoop({
      slots: this.#slots,
      claimer: this.#claimer,
      logger: this.#logger,
      pollMs: () => this.#pollMs(),
      accept: (jobs, sentAt) => this.#running.accept(jobs, sentAt),
      runAlone: (job, sentAt) => this.#running.runAlone(job, sentAt),
      // What is claimed while leases cannot be renewed may run twice.
      behind: () => !this.#leases.renewable || this.#running.behind,
      stuck: () => this.#running.stuck > 0,
      listen: () => this.#listen(),
    });
    this.#listener = wakeListener({
      deps,
      worker: this.id,
      logger: this.#logger,
      hear: (hint) => this.#hear(hint),
      pollMs: () => this.#pollMs(),
    });
    this.#upkeep = this.#makeUpkeep();
    this.#sleepMode = new SleepMode({
      afterMs: options.sleepMs,
      record: async () => await this.#say(() => this.#state()),
      fallAsleep: () => {
        this.#upkeep.pause();
        this.#listener?.quiet();
      },
      wakeUp: () => {
        this.#upkeep.resume();
        this.#listener?.loud();
        this.#hear("due");
      },
    });
  }

  get state(): WorkerStanding {
    if (this.#ended) return "stopped";
    if (this.#stopped !== undefined) return "stopping";
    if (this.#looping !== undefined) return "running";
    return this.#started === undefined ? "new" : "starting";
  }

  /** Its pools, and how full they are. */
  get pools(): readonly PoolView[] {
    return this.#slots.pools;
  }

  /** How many attempts are under way. */
  get running(): number {
    return this.#running.count;
  }

  /**
   * Milliseconds since the database last said what there is to do, or there was no room to ask; undefined before the first
   * time, 0 while asleep. Grows while the database is away, too.
   */
  get sinceLastLookMs(): number | undefined {
    if (this.#sleepMode.isAsleep) return 0;
    const lookedAt = Math.max(this.#loop.lastClaimAt, this.#glancedAt);
    return lookedAt === 0 ? undefined : Leases.now() - lookedAt;
  }

  /**
   * Milliseconds that its loops are late: a few at most in a process that is well, whether or not the database answers. What a
   * check of liveness should ask.
   */
  get overdueMs(): number {
    if (this.state !== "running" || this.#sleepMode.isAsleep) return 0;
    // What a claim took whose answer was lost is looked for until its lease has run out.
    return Math.max(this.#upkeep.overdueMs, this.#loop.turnMs - this.#options.leaseMs);
  }

  /**
   * Ask the database whether it is there and fits this code; a worker that sleeps asks nothing. What a check of readiness
   * should await.
   *
   * @throws {SchemaVersionError} The schema is not the one this code needs.
   */
  async check(): Promise<void> {
    const { db } = this.#deps;
    if (!this.#sleepMode.isAsleep) await checkSchemaVersion(db, db.schema);
  }

  /** Look for work now. Ends the sleep of a worker that has fallen silent. */
  wake(): void {
    this.#hear("due");
  }

  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => unknown,
  ): () => void {
    requireOneOf("worker.on(name)", name, workerEventNames);
    return this.#events.on(name, listener);
  }

  /**
   * Begin to claim and run jobs.
   *
   * @throws {SchemaVersionError} The schema is not the one this code needs.
   * @throws {DatabaseUnavailableError} The database cannot be reached. Throws only at start; later outages are retried.
   * @throws {LeasesUnavailableError} Leases cannot be renewed. Throws only at start; later the worker claims nothing until they can.
   */
  async start(): Promise<void> {
    if (this.#stopped !== undefined)
      throw new InvalidOptionError("worker.start", "this worker was stopped; make a new one");
    const { telemetry } = this.#deps;
    const start = (): Promise<void> => this.#start();
    this.#started ??= (telemetry === undefined ? start() : telemetry.quietly(start)).catch(
      (error: unknown) => {
        this.#started = undefined;
        throw error;
      },
    );
    await this.#started;
  }

  async #start(): Promise<void> {
    const { db } = this.#deps;
    await checkSchemaVersion(db, db.schema);
    try {
      const [{ wakesMissing }] = await Promise.all([
        register(this.#deps, infoOf(this.id, this.#deps.version, this.#options), this.#options),
        this.#leases.start(),
      ]);
      this.#wakesMissing = wakesMissing;
    } catch (error) {
      await Promise.all([this.#leases.stop(), forgetWorker(db, this.id).catch(() => undefined)]);
      if (this.#stopping.signal.aborted) return;
      throw error;
    }
    if (this.#stopping.signal.aborted) return await forgetWorker(db, this.id);

    this.#loopLag.start();
    this.#listener?.start();
    this.#undo.push(this.#deps.listen((hint) => this.#hear(hint)));
    if (this.#options.signals)
      this.#undo.push(stopOnSignals({ onSignal: async () => void (await this.stop()) }));
    this.#upkeep.start();
    this.#looping = this.#loop.run(this.#stopping.signal);
    this.#events.emit("started", { worker: this.id });
  }

  /**
   * Take nothing new, let running attempts finish for `drain`, tell the rest to stop, wait `abort` for that, and hand
   * back what is left with no attempt spent. Called a second time, the draining is cut short.
   */
  async stop(options: { drain?: Duration; abort?: Duration } = {}): Promise<StopReport> {
    refuseUnknownKeys("worker.stop", options, ["drain", "abort"]);
    const drainMs =
      options.drain === undefined ? this.#options.drainMs : toMs(options.drain, "worker.stop.drain");
    const abortMs =
      options.abort === undefined ? this.#options.abortMs : toMs(options.abort, "worker.stop.abort");
    if (this.#stopped !== undefined) this.#hurrying.abort();
    this.#stopped ??= this.#stop(drainMs, abortMs);
    return await this.#stopped;
  }

  async #stop(drainMs: number, abortMs: number): Promise<StopReport> {
    const startedAt = performance.now();
    const before = { ended: this.#running.ended, released: this.#running.released };
    this.#stopping.abort();
    this.#events.emit("stopping", { worker: this.id, running: this.#running.count });

    await this.#drain(drainMs, abortMs);
    const released = await this.#handBack();
    await this.#end();

    const report = {
      worker: this.id,
      drained: this.#running.ended - before.ended,
      released: this.#running.released - before.released + released,
      ms: performance.now() - startedAt,
    };
    this.#ended = true;
    this.#events.emit("stopped", report);
    return report;
  }

  async #drain(drainMs: number, abortMs: number): Promise<void> {
    const quiet = this.#quiet();
    if (await settledWithin(drainMs, quiet, this.#hurrying.signal)) return;
    this.#running.abortAll(new StoppingError());
    await settledWithin(abortMs, quiet);
  }

  /** Resolves when nothing runs and nothing more can come. */
  async #quiet(): Promise<void> {
    // A start that is under way would begin what has just been told to end.
    await this.#started?.catch(() => undefined);
    if (this.#looping !== undefined) void this.#quietly(this.#say(() => ({ hears: false, draining: true })));
    // What never began need not be waited for.
    this.#running.giveBackWaiting();
    // A claim that is under way still brings its jobs; they are ours, and are waited for or handed back like the others.
    await this.#looping;
    this.#running.giveBackWaiting();
    await this.#running.idle();
  }

  /** Give back what did not end, unspent. Answers how many. */
  async #handBack(): Promise<number> {
    const unfinished = this.#running.handBack();
    let count = 0;
    const recorded = this.#settler.releaseAll(unfinished.map(released)).then((answers) => {
      count = answers.filter((answer) => answer === "settled" || answer === "cancelled").length;
      this.#tell(unfinished.map(({ queue }) => queue));
    });
    // A claim that is still under way, and what it brings, are waited for too: left to its lease, each would count a crash.
    const given = this.#looping?.then(() => Promise.all([this.#running.givenBack(), this.#claimer.idle()]));
    await settledWithin(recordWithinMs, Promise.all([this.#quietly(recorded), this.#settler.idle(), given]));
    this.#settler.giveUp();
    return count;
  }

  /** End every loop, and whatever else would keep the process. Does not wait for a database that is away. */
  async #end(): Promise<void> {
    this.#sleepMode.end();
    this.#running.end();
    this.#claimer.end();
    this.#loopLag.stop();
    const ended = Promise.all([this.#upkeep.stop(), this.#listener?.stop()]);
    await Promise.all([settledWithin(endWithinMs, ended), this.#leases.stop()]);
    // After the loops: the presence of a worker that is forgotten while it lives is written again.
    if (this.#looping !== undefined)
      await settledWithin(
        endWithinMs,
        this.#quietly(Promise.all([this.#upkeep.tellLast(), forgetWorker(this.#deps.db, this.id)])),
      );
    // Last: a signal that comes while nobody listens would end the process as killed.
    for (const undo of this.#undo) undo();
  }

  async #quietly(work: Promise<unknown>): Promise<void> {
    await work.catch((error: unknown) =>
      this.#logger.warn({ err: error }, "stopping: the database did not answer"),
    );
  }

  #hear(hint: string): void {
    const queue = hint.startsWith("ready:") ? hint.slice("ready:".length) : undefined;
    // What concerns others is no reason to wake up.
    if (queue === undefined || this.#slots.serves(queue)) this.#sleepMode.activity();
    // It could not be followed. If that is still so in a while, enqueuers are told to send none.
    if (this.#hears && this.#slots.saturated) this.#upkeep.beatIn(deafAfterMs);
    if (queue !== undefined) this.#loop.hint(queue);
    else if (hint === "due") {
      this.#upkeep.promoteIn(0);
      this.#loop.hint();
    } else if (hint === "cancel") this.#leases.renewNow();
  }

  /** This worker has looked around: claim what there is, or fall asleep. */
  async #see({ ready, named, suspect, dueInMs, expiresInMs, at }: IdleCheck): Promise<void> {
    this.#glancedAt = Leases.now();
    this.#metering.clock.heard(at);
    const queues = named?.queues ?? [];
    for (const queue of queues) this.#loop.hint(queue);
    if (ready || named?.more === true) this.#loop.hint();
    if (suspect) this.#loop.seeSuspect();
    if (ready || queues.length > 0 || suspect || this.#slots.busy > 0 || this.#running.count > 0)
      this.#sleepMode.activity();
    else if (this.#loop.quiet && this.#upkeep.isDone) await this.#sleepMode.consider(dueInMs, expiresInMs);
    else if (this.#options.sleepMs !== undefined) this.#upkeep.finish();
  }

  /** Jobs of these queues went back and are ready: whoever has room may take them. */
  #tell(queues: readonly string[]): void {
    if (queues.length > 0) this.#deps.notify([...new Set(queues)].map((queue) => `ready:${queue}`));
  }

  /** See to it that enqueuers send wakes. True if they did not before, so one may have been missed. */
  async #listen(): Promise<boolean> {
    if (this.#hears || this.#listener?.listening !== true) return false;
    await this.#say(() => ({ hears: true }));
    this.#hears = true;
    return true;
  }

  /** Say how this worker is, one thing after the other: what was said first must not be what stays. */
  async #say(state: () => WorkerState): Promise<boolean> {
    return await this.#beats.run(async () => await beat(this.#deps.db, this.id, state()));
  }

  #pollMs(): number {
    return this.#options.pollMs ?? defaultPollMs(this.#listener?.listening === true && !this.#wakesMissing);
  }

  #makeUpkeep(): Upkeep {
    const { rescueEveryMs, maxCrashes, keepDoneMs, keepDeadMs } = this.#options;
    return new Upkeep(this.#deps.db, {
      logger: this.#logger,
      queues: () => (this.#slots.saturated ? [] : this.#slots.askedQueues),
      search: this.#slots.search && (() => this.#slots.searched),
      kinds: [...this.#options.handlers.keys()],
      glanceMs: () => Math.min(this.#pollMs(), rescueEveryMs),
      rescueEveryMs,
      maxCrashes,
      keepDoneMs,
      keepDeadMs,
      presence: {
        worker: infoOf(this.id, this.#deps.version, this.#options),
        say: async () => await this.#say(() => this.#state()),
        onUnserved: (kinds) => this.#events.emit("unserved", kinds),
      },
      tallies: {
        meter: this.meter,
        vitals: () => this.#vitals(),
        onUsual: (usualMs) => this.#slow.learn(usualMs),
      },
      onGlance: async (seen) => await this.#see(seen),
      onBlind: () => this.#loop.hint(),
      onPromoted: (queues) => this.#tell(queues),
      onRescued: (jobs) => {
        this.#metering.rescued(jobs);
        for (const job of jobs) reportRescued(this.#events, job);
        if (jobs.some((job) => job.state === "parked")) this.#loop.hintSuspect();
        this.#tell(jobs.filter((job) => job.state === "ready").map((job) => job.queue));
      },
    });
  }

  #state(): WorkerState {
    const draining = this.#stopping.signal.aborted;
    // A worker without room could not follow a wake; until it has room again, enqueuers need not send any.
    this.#hears = this.#listener?.listening === true && !this.#slots.saturated && !draining;
    return { hears: this.#hears, draining, asleep: this.#sleepMode.isAsleep, vitals: this.#vitals() };
  }

  #vitals(): Vitals {
    return vitalsOf(this.#slots.pools, this.#loopLag.takeLagMs());
  }
}
