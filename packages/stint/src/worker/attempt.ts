import type { ClaimedJob } from "../model/job.ts";
import { traceIdOf, type AttemptTrace } from "../model/telemetry.ts";
import { longestTimerMs } from "../runtime/sleep.ts";
import { AttemptSignal } from "./attempt-signal.ts";
import type { LeasedJob } from "./claim-leases.ts";
import type { AttemptEvent } from "./events.ts";
import type { Handler } from "./handler.ts";
import type { Extension } from "./extend.ts";
import { HandlerCall } from "./handler-call.ts";
import type { CallingAttempt, HandlerDeps } from "./handler-deps.ts";
import type { Pool } from "./pool.ts";
import type { Verdict } from "./verdict.ts";

/**
 * Where the record of an attempt stands:
 * - `open`: no verdict yet;
 * - `released`: the stopping worker has released the job, so nothing more is recorded;
 * - `under way`: the verdict is on its way to the database;
 * - `closed`: recorded, or not this attempt's business any more.
 */
export type AttemptRecord = "open" | "released" | "under way" | "closed";

/** One run of one job. What happens to it, and in which order, is in `pipeline.ts`. */
export class Attempt implements CallingAttempt {
  readonly startedAt = performance.now();
  readonly pool: Pool;
  readonly call: HandlerCall;
  readonly #leased: LeasedJob;
  /** Created on first use: most attempts are never asked to stop, and end before their timer starts. */
  #signal: AttemptSignal | undefined;
  /** Undefined before the handler is called, and where nothing is traced. */
  trace: AttemptTrace | undefined;
  /** Whether the handler has ended. Later than its verdict, if it ignores its signal. */
  over = false;
  record: AttemptRecord = "open";
  /** Where `Attempts` keeps it. */
  place = -1;
  /** The value its handler threw. */
  thrown: { readonly value: unknown } | undefined;
  /** When the handler last reported anything: a step, a checkpoint, progress or a log line. Undefined: never. */
  activeAt: number | undefined;
  #verdict: Verdict | undefined;

  constructor(leased: LeasedJob, pool: Pool, handler: Handler, deps: HandlerDeps) {
    this.#leased = leased;
    this.pool = pool;
    this.call = new HandlerCall(this, handler, deps);
  }

  get job(): ClaimedJob {
    return this.#leased.job;
  }

  get serial(): number {
    return this.#leased.leases.serial(this.#leased.index);
  }

  get signal(): AbortSignal {
    return this.#ownSignal.signal;
  }

  get #ownSignal(): AttemptSignal {
    return (this.#signal ??= new AttemptSignal());
  }

  get aborted(): Error | undefined {
    return this.#signal?.reason;
  }

  /** Ask the handler to stop. The first reason stays; false if there was one already. */
  abort(reason: Error): boolean {
    return this.#ownSignal.abort(reason);
  }

  /** How long it may run in all, if it was extended. */
  get extendedMs(): number | undefined {
    return this.#signal?.extendedMs;
  }

  /** `ms` counts from the start of the attempt. */
  startTimer(ms: number, onTimeout: () => void): void {
    this.#ownSignal.startTimer(ms - (performance.now() - this.startedAt), onTimeout);
  }

  /** Call `onExpired` when the job expires while it waits for others of its batch. */
  watchExpiry(now: () => number, onExpired: () => void): void {
    const { expiresAtMs } = this.job;
    if (expiresAtMs === null || !this.call.isGathering) return;
    setTimeout(onExpired, Math.min(expiresAtMs - now(), longestTimerMs)).unref();
  }

  extend({ forMs, maxMs, timeoutMs }: Extension): number {
    const ranMs = performance.now() - this.startedAt;
    const beforeMs = this.extendedMs ?? timeoutMs;
    const totalMs = Math.max(beforeMs, Math.min(ranMs + forMs, maxMs));
    if (totalMs > beforeMs && this.aborted === undefined) {
      this.#ownSignal.extend(totalMs, ranMs);
      this.#leased.leases.extend(this.#leased.index, totalMs - beforeMs);
    }
    return Math.max(0, Math.round(totalMs - ranMs));
  }

  /** The handler has ended. */
  end(): void {
    this.over = true;
    this.#signal?.clearTimer();
  }

  onActivity(): void {
    this.activeAt = performance.now();
  }

  /** Its lease is renewed no longer. */
  endLease(): void {
    this.#leased.leases.end(this.#leased.index);
  }

  get isDecided(): boolean {
    return this.record === "under way" || this.record === "closed";
  }

  /** How it is to be recorded. Only of an attempt that is decided and has not recorded itself. */
  get verdict(): Verdict {
    if (this.#verdict === undefined) throw new Error(`attempt of job ${this.job.fence.job} has no verdict`);
    return this.#verdict;
  }

  set verdict(verdict: Verdict) {
    this.#verdict = verdict;
  }

  /** Of the trace it belongs to, or was enqueued in. */
  get traceId(): string | undefined {
    return this.trace?.traceId ?? traceIdOf(this.job.meta);
  }

  /** Which attempt it is, as events and logs describe it. */
  get described(): AttemptEvent {
    const { fence, kind, key, attempt } = this.job;
    const { traceId } = this;
    const event = { id: fence.job, kind, key, attempt };
    return traceId === undefined ? event : { ...event, traceId };
  }
}
