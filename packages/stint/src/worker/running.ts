import type { Db } from "../db/db.ts";
import { CancelledError, LeaseLostError } from "../errors.ts";
import type { Failure } from "../model/failure.ts";
import type { AttemptOutcome, ClaimedJob, Fence } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import type { Telemetry } from "../model/telemetry.ts";
import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { Attempt, type AttemptDeps } from "./attempt.ts";
import type { WorkerEvents } from "./events.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import { reportFailed, reportLeaseLost } from "./failures.ts";
import { releaseUnbegun } from "./release.ts";
import type { LeasedJob } from "./claim-leases.ts";
import { Leases } from "./leases.ts";
import type { Metering } from "./metering.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import { handlerOf, policyOf, timeoutOf } from "./policy.ts";
import type { Settled, Settler } from "./settler.ts";
import type { Slots } from "./slots.ts";
import type { TransactionGate } from "./transaction-gate.ts";

export type RunningOptions = {
  readonly db: Db;
  readonly worker: string;
  readonly telemetry: Telemetry | undefined;
  readonly options: ResolvedWorkerOptions;
  readonly maxResultBytes: number;
  readonly slots: Slots;
  readonly leases: Leases;
  readonly settler: Settler;
  readonly metering: Metering;
  readonly gate: TransactionGate;
  readonly events: Emitter<WorkerEvents>;
  readonly logger: Logger;
  /** Jobs have come. */
  readonly onAccepted: () => void;
  /** A slot of this queue is free again, or an outcome was recorded. */
  readonly onFreed: (queue: string) => void;
  /** A job of this queue went back, to be due in this many milliseconds. */
  readonly onPutBack: (queue: string, delayMs: number) => void;
};

/** Outcomes that may wait to be recorded before no more jobs are taken: two full statements. */
const mostUnrecorded = 2_000;

/** The jobs a worker has, from claimed to recorded. */
export class Running {
  readonly #options: RunningOptions;
  readonly #deps: AttemptDeps;
  readonly #attempts = new Set<Attempt>();
  /** Recorded, but their handlers had a moment to end, and did not. */
  readonly #stuck = new Set<Attempt>();
  readonly #givingBack = new Set<Promise<unknown>>();
  #waiters: (() => void)[] = [];
  /** Those who wait for one attempt to be recorded. */
  readonly #alone = new Map<Attempt, () => void>();
  #stopping: Error | undefined;
  #suspectsLeaving = 0;
  #over = false;
  /** How many outcomes are on their way to the record. */
  #unrecorded = 0;
  /** How many attempts were recorded since the start: those that ended, and those that went back because they were told to stop. */
  ended = 0;
  released = 0;

  constructor(options: RunningOptions) {
    const { db, options: worker, maxResultBytes, leases, logger, telemetry } = options;
    const unwatched: Attempt[] = [];
    const unstorable = new Set<string>();
    this.#options = options;
    this.#deps = {
      db,
      trace: telemetry === undefined ? undefined : (job) => telemetry.attempt(job, options.worker),
      middlewares: worker.middlewares,
      abortMs: worker.abortMs,
      maxResultBytes,
      onLend: ({ kind }) => options.gate.asked(kind),
      onFault: ({ fence, kind, faults }, fault, connected) => {
        logger.warn(
          { err: fault, job: fence.job, kind, faults },
          `${kind}: the database failed its transaction`,
        );
        if (!connected) options.gate.close(fault);
      },
      onUnstorable: ({ kind }, refusal) => {
        if (unstorable.has(kind)) return;
        unstorable.add(kind);
        logger.warn(
          { kind, err: refusal },
          `${kind} returns what cannot be stored, so its result is null; return JSON, or nothing`,
        );
      },
      loggerOf: ({ fence, kind, key, attempt }, traceId) =>
        logger.child({ job: fence.job, kind, key, attempt, ...(traceId === undefined ? {} : { traceId }) }),
      onBegan: (attempt) => {
        if (options.events.heard("began")) options.events.emit("began", attempt.described);
      },
      policyOf: (job) => policyOf(worker, job),
      timeoutOf: (job) => timeoutOf(worker, job),
      enter: (serial, call) => leases.inHandler(serial, call),
      // Most handlers of a busy worker are over before the event loop turns: a timer for each would be in vain.
      watch: (attempt) => {
        if (unwatched.push(attempt) > 1) return;
        setImmediate(() => {
          for (const each of unwatched.splice(0)) if (!each.over) each.startTimeout();
        });
      },
      onVerdict: (attempt, toRecord) => this.#onVerdict(attempt, toRecord),
      onOver: (attempt) => this.#onOver(attempt),
    };
  }

  /** How many attempts are under way. */
  get count(): number {
    return this.#attempts.size;
  }

  /** Those under way. */
  get attempts(): Iterable<Attempt> {
    return this.#attempts;
  }

  /** How many handlers go on although they were told to stop. */
  get stuck(): number {
    return this.#stuck.size;
  }

  /** Whether no more jobs should be taken: so many outcomes wait to be recorded, or what must not be here yet is leaving. */
  get behind(): boolean {
    return this.#unrecorded >= mostUnrecorded || this.#suspectsLeaving > 0;
  }

  /** Keep the leases of these jobs, and start their attempts as there are slots. */
  accept(jobs: readonly ClaimedJob[], sentAt: number): void {
    const { inTime, late } = this.#sort(jobs, sentAt);
    const { metering, telemetry, worker, onAccepted } = this.#options;
    telemetry?.claimed(jobs, Leases.now() - sentAt, worker);
    metering.claimed(jobs);
    onAccepted();
    if (late.length > 0) void this.#giveBack(late);
    if (inTime.length > 0) this.#acceptInTime(inTime, sentAt);
  }

  /** An event loop that stood still may read the answer to a claim when others have long taken the jobs back. */
  #sort(jobs: readonly ClaimedJob[], sentAt: number): { inTime: ClaimedJob[]; late: ClaimedJob[] } {
    const agoMs = Leases.now() - sentAt;
    const isLate = ({ leaseMs }: ClaimedJob): boolean => agoMs > leaseMs / 2;
    return { inTime: jobs.filter((job) => !isLate(job)), late: jobs.filter(isLate) };
  }

  #acceptInTime(jobs: readonly ClaimedJob[], sentAt: number): void {
    const { slots } = this.#options;
    const crowded = !slots.fits(jobs);
    // Before any handler is entered: the first may not yield for a long time.
    slots.wait(this.#hold(jobs, sentAt));
    if (crowded) this.#sendSuspectsBack();
    const begin = (): void => {
      for (const queue of new Set(jobs.map((job) => job.queue))) this.#fill(queue);
      if (this.#stopping !== undefined) this.giveBackWaiting();
    };
    // Quick handlers, one after the other, keep this turn of the event loop to themselves. The next claim goes out before it, so
    // that the database is not idle meanwhile.
    if (crowded) setImmediate(begin);
    else begin();
  }

  /**
   * Whatever is here when this worker dies counts a crash. Once is chance. Of those that have one, the guilty among them, none
   * may begin while others of them are here; nor may one that a single crash would harm. They go back, and come again
   * when there is a slot for each.
   */
  #sendSuspectsBack(): void {
    const { slots } = this.#options;
    const suspects = slots.withdraw(slots.isCrashSuspect).map(({ job }) => job);
    const [first] = suspects;
    if (first === undefined) return;
    this.#suspectsLeaving += 1;
    void this.#giveBack(suspects).then(() => {
      this.#suspectsLeaving -= 1;
      this.#options.onFreed(first.queue);
    });
  }

  /** Run one job that has its slot already. Resolves when its outcome is recorded. */
  async runAlone(job: ClaimedJob, sentAt: number): Promise<void> {
    this.#options.metering.claimed([job]);
    const [entry] = this.#hold([job], sentAt);
    if (entry === undefined) return;
    if (!entry.held.begin(entry.index)) {
      entry.held.left();
      this.#options.slots.giveUp(job.queue);
      return;
    }
    const attempt = this.#begin(entry);
    if (this.#attempts.has(attempt))
      await new Promise<void>((resolve) => void this.#alone.set(attempt, resolve));
  }

  #hold(jobs: readonly ClaimedJob[], sentAt: number): LeasedJob[] {
    const { leases, events } = this.#options;
    const held = leases.hold(jobs, this.#deps.timeoutOf, sentAt);
    if (events.heard("claimed"))
      events.emit("claimed", { jobs: jobs.map((job) => ({ id: job.fence.job, kind: job.kind })) });
    return held;
  }

  /** Start what waits for a slot of this queue's pool, as far as there are any. */
  #fill(queue: string): void {
    const { slots } = this.#options;
    for (let entry = slots.next(queue); entry !== undefined; entry = slots.next(queue)) this.#begin(entry);
  }

  #begin(entry: LeasedJob): Attempt {
    const attempt = new Attempt(entry, handlerOf(this.#options.options, entry.job), this.#deps);
    this.#attempts.add(attempt);
    if (this.#stopping === undefined) attempt.run();
    // Brought by a claim that was answered after everybody was told to stop.
    else attempt.release();
    return attempt;
  }

  /** The lease may be somebody else's by now. */
  lost(fence: Fence): void {
    this.#find(fence)?.abort(new LeaseLostError(fence.job, fence.epoch));
  }

  cancelled(fence: Fence): void {
    this.#find(fence)?.abort(new CancelledError(fence.job));
    // One that waits ends when it is given back.
    const waiting = this.#options.slots.withdraw((job) => isSame(job.fence, fence));
    void this.#giveBack(waiting.map((entry) => entry.job));
  }

  /** Tell them to stop, and whatever is still to come. */
  abortAll(reason: Error): void {
    this.#stopping = reason;
    for (const attempt of this.#attempts) attempt.abort(reason);
  }

  /** Nothing new is to be begun: what waits for a slot goes back. */
  giveBackWaiting(): void {
    void this.#giveBack(this.#options.slots.withdraw().map(({ job }) => job));
  }

  /** The database is about to be let go of: try nothing more. */
  end(): void {
    this.#over = true;
  }

  /** Take every unfinished attempt out of its handler's hands. What the handlers still do can no longer be recorded. */
  handBack(): ClaimedJob[] {
    // One that is decided has its outcome on its way; handing it back as well could undo a success.
    const unfinished = [...this.#attempts].filter((attempt) => attempt.record === "open");
    for (const attempt of unfinished) attempt.handBack();
    this.#options.metering.released(unfinished.map(({ job }) => job));
    return unfinished.map((attempt) => attempt.job);
  }

  /** Resolves when nothing runs and nothing is on its way back. */
  async idle(): Promise<void> {
    if (this.#attempts.size > 0) await new Promise<void>((resolve) => this.#waiters.push(resolve));
    await Promise.all(this.#givingBack);
  }

  /** Give back what waits, and resolve when nothing is on its way back. */
  async givenBack(): Promise<void> {
    this.giveBackWaiting();
    await Promise.all(this.#givingBack);
  }

  #onVerdict(attempt: Attempt, toRecord: boolean): void {
    if (attempt.record === "handed back") return this.#letGo(attempt);
    attempt.record = "under way";
    this.#unrecorded += 1;
    if (toRecord) this.#options.settler.settle(attempt, this.#onSettled, this.#onUnsettled);
    else this.#recorded(attempt, "succeeded", "succeeded");
  }

  /** A slot is free when its handler is over, whether or not the outcome is recorded by then. */
  #onOver(attempt: Attempt): void {
    const { slots, metering, onFreed } = this.#options;
    const { queue } = attempt.job;
    const tookMs = performance.now() - attempt.startedAt;
    if (attempt.record !== "under way") this.#forget(attempt);
    if (attempt.began) metering.over(attempt.job, tookMs);
    slots.free(queue, tookMs);
    this.#fill(queue);
    onFreed(queue);
  }

  // One of each for all attempts: thousands a second end here.
  readonly #onSettled = (settled: Settled, attempt: Attempt): void => {
    const { events, metering, onPutBack } = this.#options;
    const { verdict, job } = attempt;
    if (settled === "lost") {
      return this.#closeAfter(attempt, () => {
        metering.leaseLost(job);
        events.emit("leaseLost", { ...attempt.described, epoch: job.fence.epoch });
        reportLeaseLost(events, attempt);
      });
    }
    const state = settled === "cancelled" ? "cancelled" : verdict.state;
    this.#recorded(attempt, verdict.ending?.outcome ?? "succeeded", state, verdict.ending?.error);
    if (!verdict.ends) onPutBack(job.queue, verdict.delayMs ?? 0);
  };

  readonly #onUnsettled = (error: unknown, attempt: Attempt): void => {
    this.#options.logger.error(
      { err: error, job: attempt.job.fence.job },
      "the outcome of an attempt could not be recorded; its lease will run out",
    );
    this.#close(attempt);
  };

  #recorded(attempt: Attempt, outcome: AttemptOutcome, state: JobState, error?: Failure): void {
    if (outcome === "released") this.released += 1;
    else this.ended += 1;
    this.#closeAfter(attempt, () => {
      const { events, metering } = this.#options;
      metering.recorded(attempt.job, outcome, state);
      const ms = performance.now() - attempt.startedAt;
      const { fence, kind, key, attempt: number } = attempt.job;
      const id = fence.job;
      const { traceId } = attempt;
      // Thousands a second pass here, nearly all without an error: an object spread into another would be the dearest part.
      const event =
        traceId === undefined
          ? { id, kind, key, attempt: number, outcome, state, ms }
          : { id, kind, key, attempt: number, outcome, state, ms, traceId };
      events.emit("settled", error === undefined ? event : { ...event, error });
      if (error !== undefined && (outcome === "failed" || outcome === "timed-out"))
        reportFailed(events, attempt, { outcome, state, ms, failure: error });
    });
  }

  /** Whatever goes wrong while an outcome is reported, its attempt is closed: its lease and its slot are not kept. */
  #closeAfter(attempt: Attempt, report: () => void): void {
    try {
      report();
    } finally {
      this.#close(attempt);
    }
  }

  /** Nothing more is to be written about it. */
  #close(attempt: Attempt): void {
    const wasBehind = this.behind;
    attempt.record = "closed";
    this.#unrecorded -= 1;
    this.#letGo(attempt);
    if (attempt.over) this.#forget(attempt);
    else this.#linger(attempt);
    // Where the record is what makes room, and not the end of the handler.
    const { slots, onFreed } = this.#options;
    const { queue } = attempt.job;
    if (wasBehind || slots.countsRecords(queue) || this.#attempts.size === 0) onFreed(queue);
  }

  /** Its lease is no longer kept, and whoever waits for it to be recorded goes on. */
  #letGo(attempt: Attempt): void {
    attempt.letGo();
    this.#options.slots.recorded(attempt.job.queue);
    this.#alone.get(attempt)?.();
    this.#alone.delete(attempt);
  }

  #forget(attempt: Attempt): void {
    this.#attempts.delete(attempt);
    this.#stuck.delete(attempt);
    if (this.#attempts.size > 0) return;
    for (const resolve of this.#waiters) resolve();
    this.#waiters = [];
  }

  /** A handler that ignores its signal keeps its slot: starting another beside it would exceed what was asked for. */
  #linger(attempt: Attempt): void {
    setImmediate(() => {
      if (attempt.over) return;
      this.#stuck.add(attempt);
      this.#options.events.emit("stuck", { id: attempt.job.fence.job, kind: attempt.job.kind });
    });
  }

  /** Give back jobs that never began. */
  async #giveBack(jobs: readonly ClaimedJob[]): Promise<void> {
    if (jobs.length === 0) return;
    this.released += jobs.length;
    this.#options.metering.released(jobs);
    const gone = this.#giveBackSurely(jobs);
    this.#givingBack.add(gone);
    await gone;
    this.#givingBack.delete(gone);
  }

  /** Tries for as long as it may help: left to their leases, they would count a crash that never was. */
  async #giveBackSurely(jobs: readonly ClaimedJob[]): Promise<void> {
    const { db, logger, onPutBack } = this.#options;
    const retryDelay = new RetryDelay();
    const leasesMs = jobs.map((job) => job.leaseMs);
    const until = performance.now() + Math.min(...leasesMs);
    const options = { deadlineMs: leaseDeadlineMs(leasesMs) };
    let left = jobs.map((job) => job.fence);
    while (left.length > 0 && performance.now() < until && !this.#over) {
      try {
        const handed = await releaseUnbegun(db, left, options);
        for (const queue of handed.queues) onPutBack(queue, 0);
        left = handed.left;
        if (left.length === 0) return;
      } catch (error) {
        logger.warn({ err: error }, "could not give back jobs that had not begun; trying again");
      }
      await sleep(retryDelay.next(), undefined, { unref: true });
    }
  }

  #find(fence: Fence): Attempt | undefined {
    for (const attempt of this.#attempts) if (isSame(attempt.job.fence, fence)) return attempt;
    return undefined;
  }
}

function isSame(a: Fence, b: Fence): boolean {
  return a.job === b.job && a.leaseId === b.leaseId;
}
