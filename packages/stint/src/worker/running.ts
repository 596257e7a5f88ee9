import type { Db } from "../db/db.ts";
import { CancelledError, LeaseLostError } from "../errors.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { Attempt, type AttemptOptions } from "./attempt.ts";
import type { WorkerEvents } from "./events.ts";
import type { Handler } from "./handler.ts";
import type { Leases } from "./leases.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { Settler } from "./settler.ts";
import { released, type Verdict } from "./verdict.ts";

export type RunningOptions = {
  readonly db: Db;
  readonly options: ResolvedWorkerOptions;
  readonly maxResultBytes: number;
  readonly leases: Leases;
  readonly settler: Settler;
  readonly events: Emitter<WorkerEvents>;
  readonly logger: Logger;
  /** A slot of this queue is free again. */
  readonly onFreed: (queue: string) => void;
  /** A job of this queue went back, to be due in this many milliseconds. */
  readonly onPutBack: (queue: string, delayMs: number) => void;
};

/** The attempts under way in this worker, from claimed to recorded. */
export class Running {
  readonly #options: RunningOptions;
  readonly #attempts = new Set<Attempt>();
  readonly #handedBack = new WeakSet<Attempt>();
  /** Attempts whose handler is done with, from then on: what is recorded of them is decided. */
  readonly #decided = new WeakSet<Attempt>();
  #waiters: (() => void)[] = [];
  #stopping: Error | undefined;
  /** How many attempts were recorded since the start: those that ended, and those that went back because they were told to stop. */
  ended = 0;
  released = 0;
  /** How many handlers go on although they were told to stop. */
  stuck = 0;

  constructor(options: RunningOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#attempts.size;
  }

  /** Hold the leases of these jobs and start their attempts. Resolves when their outcomes are recorded. */
  async start(jobs: readonly ClaimedJob[], sentAt: number): Promise<void> {
    if (jobs.length === 0) return;
    const { leases, events } = this.#options;
    const held = jobs.map((job) => ({
      job,
      handler: this.#handlerOf(job),
      timeoutMs: this.#timeoutOf(job),
    }));
    // Before any handler is entered: the first may not yield for a long time.
    const serials = leases.hold(held, sentAt);
    events.emit("claimed", { jobs: jobs.map((job) => ({ id: job.fence.job, kind: job.kind })) });
    const recorded = held.map(async ({ job, handler }, index) => {
      const attempt = new Attempt(job, this.#attemptOptions(job, handler, serials[index] ?? 0));
      // Brought by a claim that was answered after everybody was told to stop.
      if (this.#stopping !== undefined) attempt.abort(this.#stopping);
      this.#attempts.add(attempt);
      await this.#run(attempt);
    });
    await Promise.all(recorded);
  }

  /** The lease may be somebody else's by now. */
  lost(job: string, epoch: number): void {
    this.#find(job, epoch)?.abort(new LeaseLostError(job, epoch));
  }

  cancelled(job: string, epoch: number): void {
    this.#find(job, epoch)?.abort(new CancelledError(job));
  }

  /** Tell them to stop, and whatever is still to come. */
  abortAll(reason: Error): void {
    this.#stopping = reason;
    for (const attempt of this.#attempts) attempt.abort(reason);
  }

  /** Take every unfinished attempt out of its handler's hands. What the handlers still do can no longer be recorded. */
  handBack(): ClaimedJob[] {
    // One that is decided has its outcome on its way; handing it back as well could undo a success.
    const unfinished = [...this.#attempts].filter((attempt) => !this.#decided.has(attempt));
    for (const attempt of unfinished) this.#handedBack.add(attempt);
    return unfinished.map((attempt) => attempt.job);
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    if (this.#attempts.size === 0) return;
    await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Resolves when the outcome is recorded. The slot is free when the handler is over, too. */
  async #run(attempt: Attempt): Promise<void> {
    const { leases, logger } = this.#options;
    const { fence } = attempt.job;
    let handler: Promise<unknown> = Promise.resolve();
    try {
      const end =
        attempt.aborted === undefined ? await attempt.run() : { verdict: released(attempt.job), handler };
      handler = end.handler;
      if (!this.#handedBack.has(attempt)) {
        this.#decided.add(attempt);
        await this.#record(attempt, end.verdict);
      }
    } catch (error) {
      logger.error(
        { err: error, job: fence.job },
        "the outcome of an attempt could not be recorded; its lease will run out",
      );
    }
    leases.drop(fence);
    void this.#freeWhenOver(attempt, handler);
  }

  async #freeWhenOver(attempt: Attempt, handler: Promise<unknown>): Promise<void> {
    await this.#untilOver(attempt, handler);
    this.#attempts.delete(attempt);
    this.#options.onFreed(attempt.job.queue);
    if (this.#attempts.size > 0) return;
    for (const resolve of this.#waiters) resolve();
    this.#waiters = [];
  }

  async #record(attempt: Attempt, verdict: Verdict | undefined): Promise<void> {
    const { settler, events, onPutBack } = this.#options;
    const { fence, kind, attempt: number } = attempt.job;
    const settled = verdict === undefined ? "settled" : await settler.settle(verdict);
    if (settled === "lost") {
      events.emit("leaseLost", { id: fence.job, kind, epoch: fence.epoch });
      return;
    }
    const outcome = verdict?.ending?.outcome ?? "succeeded";
    if (outcome === "released") this.released += 1;
    else this.ended += 1;
    const state = settled === "cancelled" ? "cancelled" : (verdict?.state ?? "succeeded");
    const ms = performance.now() - attempt.startedAt;
    const error = verdict?.ending?.error;
    events.emit("settled", {
      id: fence.job,
      kind,
      attempt: number,
      outcome,
      state,
      ms,
      ...(error === undefined ? {} : { error }),
    });
    if (verdict?.ends === false) onPutBack(attempt.job.queue, verdict.delayMs ?? 0);
  }

  /** A handler that ignores its signal keeps its slot: starting another beside it would exceed what was asked for. */
  async #untilOver(attempt: Attempt, handler: Promise<unknown>): Promise<void> {
    let over = false;
    const noted = handler.then(() => (over = true));
    await Promise.resolve();
    if (over || this.#handedBack.has(attempt)) return;
    await Promise.race([noted, new Promise((resolve) => setImmediate(resolve))]);
    if (over) return;
    this.#options.events.emit("stuck", { id: attempt.job.fence.job, kind: attempt.job.kind });
    this.stuck += 1;
    await noted;
    this.stuck -= 1;
  }

  #find(job: string, epoch: number): Attempt | undefined {
    for (const attempt of this.#attempts) {
      if (attempt.job.fence.job === job && attempt.job.fence.epoch === epoch) return attempt;
    }
    return undefined;
  }

  #handlerOf(job: ClaimedJob): Handler {
    const handler = this.#options.options.handlers.get(job.kind);
    if (handler === undefined)
      throw new Error(`claimed a job of kind "${job.kind}", which this worker does not serve`);
    return handler;
  }

  #timeoutOf(job: ClaimedJob): number {
    const { options } = this.#options;
    return job.timeoutMs ?? options.handlers.get(job.kind)?.policy.timeoutMs ?? options.timeoutMs;
  }

  #attemptOptions(job: ClaimedJob, handler: Handler, serial: number): AttemptOptions {
    const { db, options, maxResultBytes, leases, logger } = this.#options;
    return {
      db,
      handler,
      middlewares: options.middlewares,
      policy: {
        maxAttempts: job.maxAttempts ?? handler.policy.attempts ?? options.attempts,
        backoff: handler.policy.backoff ?? options.backoff,
        random: Math.random,
      },
      timeoutMs: this.#timeoutOf(job),
      abortMs: options.abortMs,
      maxResultBytes,
      logger: () => logger.child({ job: job.fence.job, kind: job.kind, key: job.key, attempt: job.attempt }),
      enter: (call) => leases.inHandler(serial, call),
    };
  }
}
