import { InvalidOptionError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { refuseUnknownKeys, requireInteger, requireOneOf } from "../model/options.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { checkSchemaVersion } from "../sql/schema-version.ts";
import { Meter } from "../telemetry/meter.ts";
import type { PoolView } from "../telemetry/process-metrics.ts";
import { assemble, type WorkerParts } from "./assemble.ts";
import type { WorkerDeps } from "./deps.ts";
import { workerEventNames, type StopReport, type WorkerEvents } from "./events.ts";
import { mostSlots, type ResolvedWorkerOptions } from "./options.ts";
import { stopOnSignals } from "./process-signals.ts";
import { longestEndMs, stopWorker } from "./stop.ts";
import { newWorkerId } from "./worker-id.ts";

/** What a worker is doing. */
export type WorkerStanding = "new" | "starting" | "running" | "stopping" | "stopped";

/** Claims and runs jobs. Made by `stint.worker(…)`. */
export class Worker {
  readonly id: string;
  /** Counters since the worker was made. */
  readonly meter = new Meter();
  readonly #deps: WorkerDeps;
  readonly #options: ResolvedWorkerOptions;
  readonly #parts: WorkerParts;
  readonly #stopping = new AbortController();
  readonly #hurrying = new AbortController();
  readonly #undo: (() => void)[] = [];
  #started: Promise<void> | undefined;
  #looping: Promise<void> | undefined;
  #stopped: Promise<StopReport> | undefined;
  #ended = false;

  constructor(deps: WorkerDeps, options: ResolvedWorkerOptions) {
    this.id = newWorkerId(options.name);
    this.#deps = deps;
    this.#options = options;
    const { id, meter } = this;
    this.#parts = assemble({ id, deps, options, meter, stopping: this.#stopping.signal });
  }

  get state(): WorkerStanding {
    if (this.#ended) return "stopped";
    if (this.#stopped !== undefined) return "stopping";
    if (this.#looping !== undefined) return "running";
    return this.#started === undefined ? "new" : "starting";
  }

  /** Its pools, and how full they are. */
  get pools(): readonly PoolView[] {
    return this.#parts.pools.views;
  }

  /** How long `stop()` takes at most: with its drain, and once a second call has cut the drain short. */
  get longestStopMs(): { readonly drained: number; readonly hurried: number } {
    const { drainMs, abortMs } = this.#options;
    const hurried = abortMs + longestEndMs;
    return { drained: drainMs + hurried, hurried };
  }

  /** How many attempts are under way. */
  get running(): number {
    return this.#parts.pipeline.attempts.size;
  }

  /**
   * Milliseconds since the worker last looked for work, or had no room for any; undefined before the first time, 0 while asleep.
   * Grows while the database is unavailable.
   */
  get sinceLastLookMs(): number | undefined {
    const { sleepMode, loop, router } = this.#parts;
    if (sleepMode.isAsleep) return 0;
    const lookedAt = Math.max(loop.lastClaimAt, router.lastIdleCheckAt);
    return lookedAt === 0 ? undefined : monotonicMs() - lookedAt;
  }

  /**
   * Milliseconds that the worker's loops are late: a few at most in a healthy process, whether or not the database responds. For
   * liveness checks.
   */
  get overdueMs(): number {
    const { sleepMode, upkeep, loop } = this.#parts;
    if (this.state !== "running" || sleepMode.isAsleep) return 0;
    // Jobs of a claim whose response was lost are looked for until their lease has run out.
    return Math.max(upkeep.overdueMs, loop.turnMs - this.#options.leaseMs);
  }

  /**
   * Check that the database responds and has the schema this code needs; while asleep, check nothing. For readiness checks.
   *
   * @throws {SchemaVersionError} The schema is not the one this code needs.
   */
  async check(): Promise<void> {
    const { db } = this.#deps;
    if (!this.#parts.sleepMode.isAsleep) await checkSchemaVersion(db, db.schema);
  }

  /**
   * Change the slots of a pool while the worker runs. With fewer slots, running attempts finish and no others begin until there is room; claimed
   * jobs that wait for a slot are released. With 0 the pool claims nothing. Resolves once the new number is written to the worker's row.
   *
   * @throws {InvalidOptionError} The worker has no such pool, or the number cannot work.
   */
  async setSlots(pool: string, slots: number): Promise<void> {
    const { pools, pipeline, loop, row } = this.#parts;
    const found = pools.named(pool);
    const reserved = found.options.reserve?.slots ?? 0;
    if (requireInteger("setSlots(slots)", slots, { min: 0, max: mostSlots }) > 0 && slots <= reserved)
      throw new InvalidOptionError(
        "setSlots(slots)",
        `must be 0 or more than the ${reserved} reserved slots of pool "${pool}": only urgent jobs would run, got ${slots}`,
      );
    found.setSlots(slots);
    if (found.room < 0) pipeline.releaseWaiting(({ queue }) => pools.find(queue) === found);
    pipeline.fill(found);
    loop.hint();
    await row.setSlots(found.options.queues, slots);
  }

  /** Look for work now. Ends sleep mode. */
  wake(): void {
    this.#parts.router.wake("due");
  }

  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => unknown,
  ): () => void {
    requireOneOf("worker.on(name)", name, workerEventNames);
    return this.#parts.events.on(name, listener);
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
    const { db, listen } = this.#deps;
    const { leases, row, pauses, loopLag, listener, router, upkeep, loop, events } = this.#parts;
    // First: nothing else of a start takes as long as this thread.
    const renewable = leases.start();
    renewable.catch(() => undefined);
    let registered: Promise<boolean> | undefined;
    try {
      await checkSchemaVersion(db, db.schema);
      // Before the worker is registered: a handler that cannot be loaded changes nothing.
      await this.#loadIsolated();
      registered = row.register();
      const [paused] = await Promise.all([registered, renewable]);
      if (paused) pauses.changed();
    } catch (error) {
      // A row that is deleted before its insert arrives would stay.
      await registered?.catch(() => undefined);
      await Promise.all([leases.stop(), registered && row.delete().catch(() => undefined)]);
      // A later start must not meet the rest of this one.
      await renewable.catch(() => undefined);
      if (this.#stopping.signal.aborted && registered !== undefined) return;
      throw error;
    }
    if (this.#stopping.signal.aborted) return await row.delete();

    loopLag.start();
    listener?.start();
    this.#undo.push(listen((hint) => router.wake(hint)));
    if (this.#options.signals)
      this.#undo.push(stopOnSignals({ onSignal: async () => void (await this.stop()) }));
    // The first claim before the first upkeep: they share their connections.
    this.#looping = loop.run(this.#stopping.signal);
    upkeep.start();
    events.emit("started", { worker: this.id });
  }

  async #loadIsolated(): Promise<void> {
    const { isolated } = this.#parts;
    try {
      await isolated.start(this.#options.handlers.values());
    } catch (error) {
      isolated.end();
      throw error;
    }
  }

  /**
   * Claim nothing new, let running attempts finish for `drain`, ask the rest to stop, wait `abort` for that, and release what is
   * left with no attempt spent. A second call cuts the drain short.
   */
  async stop(options: { drain?: Duration; abort?: Duration } = {}): Promise<StopReport> {
    refuseUnknownKeys("worker.stop", options, ["drain", "abort"]);
    const { drain, abort } = options;
    const drainMs = drain === undefined ? this.#options.drainMs : toMs(drain, "worker.stop.drain");
    const abortMs = abort === undefined ? this.#options.abortMs : toMs(abort, "worker.stop.abort");
    if (this.#stopped !== undefined) this.#hurrying.abort();
    this.#stopped ??= this.#stop(drainMs, abortMs);
    return await this.#stopped;
  }

  async #stop(drainMs: number, abortMs: number): Promise<StopReport> {
    const { events } = this.#parts;
    const stoppedAt = performance.now();
    this.#stopping.abort();
    events.emit("stopping", { worker: this.id, running: this.running });
    const stopped = await stopWorker(this.#parts, {
      drainMs,
      abortMs,
      hurry: this.#hurrying.signal,
      started: this.#started,
      looping: () => this.#looping,
    });
    // Last: a signal without a listener would kill the process.
    for (const undo of this.#undo) undo();
    const report = { ...stopped, ms: performance.now() - stoppedAt };
    this.#ended = true;
    events.emit("stopped", report);
    return report;
  }
}
