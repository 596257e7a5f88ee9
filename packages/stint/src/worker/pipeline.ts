import { CancelledError, LeaseLostError, StoppingError, TimedOutError } from "../errors.ts";
import type { Failure } from "../model/failure.ts";
import type { AttemptOutcome, ClaimedJob, Fence } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { longestTimerMs } from "../runtime/sleep.ts";
import { Attempt } from "./attempt.ts";
import { Attempts } from "./attempts.ts";
import { leftBatch } from "./batch.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { AttemptDeps } from "./deps.ts";
import { reportFailed, reportLeaseLost } from "./failures.ts";
import type { OnEnd } from "./on-end.ts";
import { handlerOf, timeoutOf } from "./policy.ts";
import type { Pool } from "./pool.ts";
import { insteadOfStart } from "./instead-of-start.ts";
import { outsideQuietHours } from "./quiet-hours.ts";
import { takeLimited } from "./take-limited.ts";
import type { Settled } from "./settler.ts";
import { released, type Verdict } from "./verdict.ts";

/**
 * The life of an attempt, from top to bottom:
 *
 * 1. `claimed`: a claim returned jobs; those that arrived late or are paused are released, and those under a limit take their places.
 * 2. `hold`: the lease thread keeps their leases while they wait for a slot.
 * 3. `begin`: a slot is free, and the attempt starts.
 * 4. `run`: the handler is called, with a timeout.
 * 5. `decide`: what the handler returned or threw, or why it was interrupted, becomes a verdict.
 * 6. `settle`: the verdict is recorded under the fence, and reported.
 * 7. `forget`: the lease and the slot are free; nothing of the attempt is left.
 *
 * A slot is free when its handler has ended, recorded or not. A handler that ignores its signal is recorded while it runs, and
 * keeps its slot: starting another job beside it would exceed the slots of the pool.
 */
export class AttemptPipeline {
  readonly attempts = new Attempts();
  readonly #deps: AttemptDeps;
  #unwatched: Attempt[] = [];
  /** Why every attempt is asked to stop, once the drain of a stopping worker is over. */
  #stopReason: Error | undefined;

  constructor(deps: AttemptDeps) {
    this.#deps = deps;
  }

  /** The database's clock, as far as it is known. */
  readonly #now = (): number => this.#deps.db.clock.nowMs();

  /** 1. A claim sent at `sentAt` returned these jobs. */
  claimed(jobs: readonly ClaimedJob[], sentAt: number): Promise<void> | undefined {
    const { telemetry, worker, metering, releaser, pauses, places, onClaimed } = this.#deps;
    const tookMs = monotonicMs() - sentAt;
    telemetry?.claimed(jobs, tookMs, worker);
    metering.claimed(jobs);
    onClaimed();
    // A blocked event loop may read the response to a claim after other workers have rescued its jobs.
    const isLate = ({ leaseMs }: ClaimedJob): boolean => tookMs > leaseMs / 2;
    const isAnyLate = jobs.some(isLate);
    if (isAnyLate) void releaser.release(jobs.filter(isLate));
    const inTime = pauses.admit(isAnyLate ? jobs.filter((job) => !isLate(job)) : jobs);
    if (!inTime.some(places.isLimited)) {
      this.hold(inTime, sentAt);
      return undefined;
    }
    const limited = inTime.filter(places.isLimited);
    this.hold(
      inTime.filter((job) => !places.isLimited(job)),
      sentAt,
    );
    return takeLimited(this.#deps, limited, (taken) => this.hold(taken, sentAt));
  }

  /** 2. Keep their leases, and let them wait for slots. */
  hold(jobs: readonly ClaimedJob[], sentAt: number): void {
    if (jobs.length === 0) return;
    const { pools, quarantine } = this.#deps;
    const crowded = !pools.fits(jobs);
    // Before any handler is entered: the first may block the event loop for long.
    pools.wait(this.#keepLeases(jobs, sentAt));
    if (!crowded) return this.#beginWaiting(jobs);
    quarantine.releaseSuspects();
    // Short handlers, one after the other, occupy the event loop. The next claim is sent first, so that the database works
    // meanwhile.
    setImmediate(() => this.#beginWaiting(jobs));
  }

  #keepLeases(jobs: readonly ClaimedJob[], sentAt: number): LeasedJob[] {
    const { leases, events, options } = this.#deps;
    const leased = leases.hold(jobs, (job) => timeoutOf(options, job), sentAt);
    if (events.hasListener("claimed"))
      events.emit("claimed", { jobs: jobs.map((job) => ({ id: job.fence.job, kind: job.kind })) });
    return leased;
  }

  #beginWaiting(jobs: readonly ClaimedJob[]): void {
    for (const pool of this.#deps.pools.of(jobs)) this.fill(pool);
    if (this.#stopReason !== undefined) this.releaseWaiting();
  }

  /** 3. Begin waiting jobs of this pool, as far as slots are free. */
  fill(pool: Pool): void {
    for (let leased = pool.next(); leased !== undefined; leased = pool.next()) this.begin(pool, leased);
  }

  begin(pool: Pool, leased: LeasedJob): Attempt {
    const { job } = leased;
    const attempt = new Attempt(leased, pool, handlerOf(this.#deps.options, job), this.#deps);
    this.attempts.add(attempt);
    // A claim that returns after every attempt was asked to stop.
    if (this.#stopReason !== undefined) this.#end(attempt, 0, released(job));
    else {
      const instead = insteadOfStart(this.#deps, job, this.#now);
      if (instead === undefined) this.run(attempt);
      else this.#end(attempt, 0, instead);
    }
    return attempt;
  }

  /** Begin a job that must have no other beside it, in a slot of its own. Resolves when its outcome is recorded. */
  async runAlone(job: ClaimedJob, sentAt: number): Promise<void> {
    const { pools, metering, pauses, places } = this.#deps;
    metering.claimed([job]);
    if (pauses.admit([job]).length === 0) return;
    if (places.isLimited(job) && pauses.admit(await places.take([job])).length === 0) return;
    const [leased] = this.#keepLeases([job], sentAt);
    const pool = pools.find(job.queue);
    if (leased === undefined || pool === undefined) return;
    if (!leased.leases.begin(leased.index)) return leased.leases.forget();
    pool.takeSlot();
    await this.attempts.closed(this.begin(pool, leased));
  }

  /** 4. Call the handler. Never throws. */
  run(attempt: Attempt): void {
    const { telemetry, worker, events, tokens } = this.#deps;
    try {
      tokens.requireCosts(attempt.job);
      const trace = (attempt.trace = telemetry?.attempt(attempt.job, worker));
      if (events.hasListener("began")) events.emit("began", attempt.described);
      if (trace === undefined) attempt.call.run(attempt, this.#ended);
      else trace.run(() => attempt.call.run(attempt, this.#ended));
      this.#watch(attempt);
    } catch (error) {
      this.#ended(attempt, undefined, { value: error });
    }
  }

  /** Most handlers of a busy worker end within this turn of the event loop; a timer for each would be wasted. */
  #watch(attempt: Attempt): void {
    if (this.#unwatched.push(attempt) > 1) return;
    setImmediate(() => {
      const unwatched = this.#unwatched;
      this.#unwatched = [];
      for (const each of unwatched) if (!each.over) this.#startTimeout(each);
    });
  }

  #startTimeout(attempt: Attempt): void {
    const { job } = attempt;
    attempt.watchExpiry(this.#now, () => this.releaseGathering((each) => each === job));
    const timeoutMs = attempt.extendedMs ?? timeoutOf(this.#deps.options, job);
    // Longer than a timer counts. The lease thread renews no further than this, and then reports the lease as lost.
    if (timeoutMs > longestTimerMs) return;
    attempt.startTimer(timeoutMs, () =>
      this.interrupt(attempt, new TimedOutError(job.fence.job, attempt.extendedMs ?? timeoutMs)),
    );
  }

  /** Ask the handler to stop. If it does not within the time it has for that, it is decided without it. */
  interrupt(attempt: Attempt, reason: Error): void {
    // A stopping worker waits for all attempts together, then releases the rest of them at once.
    if (!attempt.abort(reason) || reason instanceof StoppingError) return;
    const { abortMs } = this.#deps.options;
    // After a timeout the lease is renewed no more: waiting until it ends would turn the timeout into a crash.
    const isTimeout = reason instanceof TimedOutError;
    const patienceMs = isTimeout ? Math.min(abortMs, attempt.job.leaseMs / 2) : abortMs;
    setTimeout(() => this.#threw(attempt, reason), patienceMs).unref();
  }

  readonly #ended: OnEnd<Attempt> = (attempt, verdict, thrown) => {
    if (attempt.over) return;
    const tookMs = performance.now() - attempt.startedAt;
    this.#end(attempt, tookMs, verdict, thrown);
    this.#deps.metering.over(attempt.job, tookMs);
  };

  /**
   * The handler has ended, or is not called: decide, and free its slot. Whatever is thrown on the way, the attempt gets a verdict: without one it
   * would keep its lease for ever.
   */
  #end(
    attempt: Attempt,
    tookMs: number,
    verdict: Verdict | undefined,
    thrown?: { readonly value: unknown },
  ): void {
    try {
      if (thrown === undefined) this.decide(attempt, verdict);
      else this.#threw(attempt, thrown.value);
    } catch (error) {
      attempt.call.logger.error({ err: error }, "an attempt could not be decided; it counts as failed");
      this.#threw(attempt, error);
    } finally {
      attempt.end();
      this.#freeSlot(attempt, tookMs);
    }
  }

  #threw(attempt: Attempt, thrown: unknown): void {
    if (attempt.isDecided) return;
    attempt.thrown = { value: thrown };
    if (attempt.aborted === undefined) this.#deps.tokens.threw(attempt.job, thrown);
    this.decide(attempt, attempt.call.failed(thrown));
  }

  /** 5. The attempt has its verdict; undefined if it has recorded its own success. */
  decide(attempt: Attempt, decided: Verdict | undefined): void {
    if (attempt.isDecided) return;
    const verdict = decided && outsideQuietHours(this.#deps.options, attempt.job, decided, this.#now);
    const wasReleased = attempt.record === "released";
    attempt.record = wasReleased ? "closed" : "under way";
    const first = attempt.trace === undefined ? undefined : this.#endTrace(attempt, verdict);
    if (verdict !== undefined)
      attempt.verdict = first !== undefined && !verdict.ends ? { ...verdict, first } : verdict;
    if (wasReleased) return this.#endLease(attempt);
    this.attempts.unrecorded += 1;
    if (verdict === undefined) this.#recorded(attempt, "succeeded", "succeeded");
    else this.#deps.settler.settle(attempt, this.settled, this.unsettled);
  }

  /** Returns what the job is to carry, so that the trace of its next attempt can point to this one. */
  #endTrace(attempt: Attempt, verdict: Verdict | undefined): string | undefined {
    return attempt.trace?.ended({
      outcome: verdict?.ending?.outcome ?? "succeeded",
      state: verdict?.state ?? "succeeded",
      error: verdict?.ending?.error,
    });
  }

  /** The handler has ended, whether or not its outcome is recorded. */
  #freeSlot(attempt: Attempt, tookMs: number): void {
    const { job, pool } = attempt;
    if (attempt.record !== "under way") this.forget(attempt);
    pool.freeSlot(tookMs);
    this.fill(pool);
    if (!pool.isStocked) this.#deps.onRoom(job.queue);
  }

  /** 6. The settler reports the outcome. One function for all attempts: thousands a second end here. */
  readonly settled = (settled: Settled, attempt: Attempt): void => {
    if (settled === "lost") return this.#lost(attempt);
    const { verdict, job } = attempt;
    const state = settled === "cancelled" ? "cancelled" : verdict.state;
    this.#recorded(attempt, verdict.ending?.outcome ?? "succeeded", state, verdict.ending?.error);
    if (verdict.ends) return;
    this.#deps.onRequeued(job.queue, verdict.delayMs ?? 0);
    // The signal that the handler waits for may have arrived while it was suspended: the job is ready then.
    if (verdict.suspend?.awaits != null && (verdict.delayMs ?? 0) > 0) this.#deps.onRequeued(job.queue, 0);
  };

  readonly unsettled = (error: unknown, attempt: Attempt): void => {
    this.#deps.logger.error(
      { err: error, job: attempt.job.fence.job },
      "the outcome of an attempt could not be recorded; its lease will run out",
    );
    this.#close(attempt);
  };

  #lost(attempt: Attempt): void {
    const { events, metering } = this.#deps;
    try {
      metering.leaseLost(attempt.job);
      events.emit("leaseLost", { ...attempt.described, epoch: attempt.job.fence.epoch });
      reportLeaseLost(events, attempt);
    } finally {
      this.#close(attempt);
    }
  }

  #recorded(attempt: Attempt, outcome: AttemptOutcome, state: JobState, error?: Failure): void {
    if (outcome === "released") this.attempts.released += 1;
    else this.attempts.ended += 1;
    try {
      this.#report(attempt, outcome, state, error);
    } finally {
      this.#close(attempt);
    }
  }

  #report(attempt: Attempt, outcome: AttemptOutcome, state: JobState, error?: Failure): void {
    const { events, metering } = this.#deps;
    metering.recorded(attempt.job, outcome, state);
    const ms = performance.now() - attempt.startedAt;
    const { fence, kind, key, attempt: number } = attempt.job;
    const id = fence.job;
    const { traceId } = attempt;
    // Thousands a second pass here, nearly all without an error: a spread would cost more than everything else.
    const event =
      traceId === undefined
        ? { id, kind, key, attempt: number, outcome, state, ms }
        : { id, kind, key, attempt: number, outcome, state, ms, traceId };
    events.emit("settled", error === undefined ? event : { ...event, error });
    if (error !== undefined && (outcome === "failed" || outcome === "timed-out" || outcome === "crashed"))
      reportFailed(events, attempt, { outcome, state, ms, failure: error });
  }

  /** Nothing more is written about this attempt. */
  #close(attempt: Attempt): void {
    const { pools, places, onPlaceFreed, onRoom } = this.#deps;
    const { pool, job } = attempt;
    const wasBehind = this.attempts.isBehind;
    attempt.record = "closed";
    this.attempts.unrecorded -= 1;
    this.#endLease(attempt);
    if (attempt.over) this.forget(attempt);
    else this.#watchStuck(attempt);
    if (places.mayFree(job)) onPlaceFreed();
    // Where recording an outcome makes room, and not only the end of its handler.
    const makesRoom = wasBehind || pool.countsUnrecorded || pools.isShareFull;
    if (makesRoom || this.attempts.size === 0) onRoom(job.queue);
  }

  #endLease(attempt: Attempt): void {
    attempt.endLease();
    attempt.pool.recorded();
    this.attempts.close(attempt);
  }

  /** Recorded while its handler runs. The handler has one turn of the event loop to end. */
  #watchStuck(attempt: Attempt): void {
    setImmediate(() => {
      if (attempt.over) return;
      this.attempts.addStuck(attempt);
      this.#deps.events.emit("stuck", { id: attempt.job.fence.job, kind: attempt.job.kind });
    });
  }

  /** 7. Recorded, and its handler has ended. */
  forget(attempt: Attempt): void {
    this.attempts.delete(attempt);
  }

  /** The lease may belong to another worker by now. */
  leaseLost(fence: Fence): void {
    const attempt = this.attempts.find(fence);
    if (attempt !== undefined) this.interrupt(attempt, new LeaseLostError(fence.job, fence.epoch));
  }

  /** A person or a program cancelled the job. One that waits for a slot is cancelled by its release. */
  cancelled(fence: Fence): void {
    const attempt = this.attempts.find(fence);
    if (attempt !== undefined) this.interrupt(attempt, new CancelledError(fence.job));
    const { job, leaseId } = fence;
    this.releaseWaiting((waiting) => waiting.fence.job === job && waiting.fence.leaseId === leaseId);
  }

  /** Release jobs that wait for a slot. */
  releaseWaiting(which?: (job: ClaimedJob) => boolean): void {
    const { pools, releaser } = this.#deps;
    void releaser.release(pools.releaseWaiting(which));
  }

  /** Release jobs that wait for others of their batch. */
  releaseGathering(which: (job: ClaimedJob) => boolean): void {
    for (const each of this.attempts.gathering(which)) this.interrupt(each, new StoppingError(leftBatch));
  }

  /** Ask every handler to stop, and begin no other. */
  interruptAll(reason: Error): void {
    this.#stopReason = reason;
    for (const attempt of this.attempts) this.interrupt(attempt, reason);
  }

  /** Take every undecided attempt from its handler, for the caller to release. Nothing its handler does is recorded any more. */
  releaseUndecided(): ClaimedJob[] {
    // A decided attempt has its outcome on its way; releasing it as well could undo a success.
    const undecided = [...this.attempts].filter((attempt) => attempt.record === "open");
    for (const attempt of undecided) {
      attempt.record = "released";
      attempt.trace?.ended({ outcome: "released", state: "ready" });
    }
    const jobs = undecided.map(({ job }) => job);
    this.#deps.metering.released(jobs);
    return jobs;
  }

  /** Resolves when nothing runs and no release is under way. */
  async idle(): Promise<void> {
    await this.attempts.idle();
    await this.#deps.releaser.idle();
  }
}
