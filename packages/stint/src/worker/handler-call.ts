import type { OnFault, Tx } from "../db/db.ts";
import { InvalidOptionError, TimedOutError } from "../errors.ts";
import type { Duration } from "../model/duration.ts";
import type { ClaimedJob } from "../model/job.ts";
import { completed, isOutcome, type Completed } from "../model/outcome.ts";
import { isThenable, validate } from "../model/standard-schema.ts";
import type { Logger } from "../runtime/logger.ts";
import { again, type AgainOptions } from "./again.ts";
import { callHandler, middlewaresOf } from "./call-handler.ts";
import { dependencyResults, type DependencyResult } from "../sql/flows.ts";
import { completeInTransaction, type Success } from "./complete.ts";
import { Completion } from "./completion.ts";
import { Context, type AttemptOfContext } from "./context.ts";
import { encodeResult } from "./encode-result.ts";
import { extend } from "./extend.ts";
import type { Handler, HandlerContext } from "./handler.ts";
import type { CallingAttempt, HandlerDeps } from "./handler-deps.ts";
import { report, type OnEnd } from "./on-end.ts";
import { Plan } from "./plan.ts";
import { policyOf, timeoutOf } from "./policy.ts";
import { AttemptProgress } from "./progress.ts";
import { AttemptSteps } from "./steps.ts";
import { isSuspended } from "./suspension.ts";
import { returned, returnedInvalid, suspended, threw, type Verdict } from "./verdict.ts";
import { watched } from "./watched-attempt.ts";

/** The call of one handler, from the stored payload to a verdict. */
export class HandlerCall implements AttemptOfContext {
  readonly #attempt: CallingAttempt;
  readonly #handler: Handler;
  readonly #deps: HandlerDeps;
  #completing = false;
  #completed = false;
  /** Every call of `complete`. Created on first use: most handlers never call it. */
  #completions: Completion[] | undefined;
  /** How the database failed the last transaction that the handler was given, if it did. */
  #fault: { readonly error: unknown } | undefined;
  /** Whether the handler waits for the database: for its transaction to begin, or to be settled and committed. */
  #waitsForDatabase = false;
  /** Created on first use: most handlers have no steps. */
  #steps: AttemptSteps | undefined;
  #progress: AttemptProgress | undefined;
  /** Why the result schema refused what was returned, if it did. */
  #refusal: { readonly error: unknown } | undefined;
  /** Created on first use: most handlers never continue a chain or spawn a job. */
  #plan: Plan | undefined;

  constructor(attempt: CallingAttempt, handler: Handler, deps: HandlerDeps) {
    this.#attempt = attempt;
    this.#handler = handler;
    this.#deps = deps;
  }

  get job(): ClaimedJob {
    return this.#attempt.job;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  get isGathering(): boolean {
    return this.#handler.isGathering?.(this.job.fence.job) === true;
  }

  get maxAttempts(): number {
    return policyOf(this.#deps.options, this.job).maxAttempts;
  }

  get plan(): Plan {
    if (this.#attempt.over || this.#completed)
      throw new InvalidOptionError(
        "plan",
        `job ${this.job.fence.job} has ended; nothing can follow it any more`,
      );
    return (this.#plan ??= new Plan(this.job, this.#deps));
  }

  async results(kind: string | null): Promise<DependencyResult[]> {
    return await dependencyResults(this.#deps.db, this.job.fence.job, kind);
  }

  get logger(): Logger {
    const { fence, kind, key, attempt } = this.job;
    const { traceId } = this.#attempt;
    const fields = { job: fence.job, kind, key, attempt };
    return this.#deps.logger.child(traceId === undefined ? fields : { ...fields, traceId });
  }

  async again(next: AgainOptions): Promise<void> {
    if (this.#attempt.over) throw new InvalidOptionError("again", "was called after the handler had ended");
    await again(this.#deps.db, this.job, next, this.#handler.definition, this.#deps.maxResultBytes);
  }

  get steps(): AttemptSteps {
    this.#refuseAtomic("step");
    return (this.#steps ??= new AttemptSteps(watched(this.#attempt, this.#handler), this.#deps));
  }

  get progress(): AttemptProgress {
    return (this.#progress ??= new AttemptProgress(watched(this.#attempt, this.#handler), this.#deps));
  }

  durable(what: string): AttemptProgress {
    this.#refuseAtomic(what);
    return this.progress;
  }

  extend(duration: Duration): number {
    const timeoutMs = timeoutOf(this.#deps.options, this.job);
    return extend(this.#attempt, duration, { maxMs: this.#maxTimeoutMs, timeoutMs });
  }

  get #maxTimeoutMs(): number | undefined {
    return this.#handler.policy.maxTimeoutMs ?? this.#deps.options.maxTimeoutMs;
  }

  #refuseAtomic(what: string): void {
    const { atomic, kind } = this.#handler.definition;
    if (atomic)
      throw new InvalidOptionError(
        what,
        `is not possible in ${kind}, which is atomic: its transaction would forget what the job remembers`,
      );
  }

  /**
   * Call the handler, and then `onEnd`, in a later turn, with the verdict on what it returned. Never throws. Most handlers return nothing and use
   * none of the parts that are created on first use: for those there is no async function, which would be a third of all that a short
   * attempt allocates.
   */
  run<A>(attempt: A, onEnd: OnEnd<A>): void {
    if (this.#handler.definition.atomic) return report(this.#runAtomically(), attempt, onEnd);
    this.#enter().then(
      (value) => {
        if (value !== undefined || this.#usesParts || this.#handler.definition.result !== undefined)
          report(this.#conclude(value), attempt, onEnd);
        else onEnd(attempt, returned(this.job, value, null));
      },
      (thrown: unknown) => {
        if (this.#usesParts) report(this.#concludeThrown(thrown), attempt, onEnd);
        else onEnd(attempt, undefined, { value: thrown });
      },
    );
  }

  /** Resolves with what the handler returned. */
  #enter(): Promise<unknown> {
    try {
      const checked = this.#check();
      if (isThenable(checked)) return checked.then((payload) => this.#call(payload, undefined));
      return Promise.resolve(this.#call(checked, undefined));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #check(): unknown {
    const { kind, payload } = this.job;
    return validate(this.#handler.definition.payload, JSON.parse(payload), { kind, root: "payload" });
  }

  /** Whether the handler has used a part of its context whose end must be awaited, or that changes its verdict. */
  get #usesParts(): boolean {
    return (
      this.#completions !== undefined ||
      this.#steps !== undefined ||
      this.#progress !== undefined ||
      this.#plan !== undefined
    );
  }

  /** The verdict on what the handler returned. */
  async #conclude(value: unknown): Promise<Verdict | undefined> {
    await this.#partsEnded();
    if (this.#completed) return undefined;
    const suspension = this.#suspended();
    if (suspension !== undefined) return suspension;
    this.#throwUnhandled(value);
    if (this.#plan !== undefined) return await this.#planned(value, this.#plan);
    const isNothing = value === undefined && this.#handler.definition.result === undefined;
    return returned(this.job, value, isNothing ? null : await this.#encode(value));
  }

  async #concludeThrown(thrown: unknown): Promise<never> {
    await this.#partsEnded();
    throw thrown;
  }

  async #partsEnded(): Promise<void> {
    for (const completion of this.#completions ?? []) await completion.ended();
    await this.#steps?.ended();
    await this.#progress?.ended();
  }

  /** What a handler returned that has continued its chain or spawned jobs. */
  async #planned(value: unknown, plan: Plan): Promise<Verdict> {
    const outcome = plan.outcomeOf(value);
    const isNothing = outcome === undefined && this.#handler.definition.result === undefined;
    const result = isNothing ? null : await this.#encode(outcome);
    return returned(this.job, outcome, result, plan.isEmpty ? undefined : await plan.toJson());
  }

  /** The verdict on what the call threw, or on why it was interrupted; undefined if it has recorded its own success. */
  failed(thrown: unknown): Verdict | undefined {
    if (this.#completed) {
      const text = "the handler threw after it had completed its job; the job stays succeeded";
      this.logger.warn({ err: thrown }, text);
      return undefined;
    }
    const suspension = this.#suspended(thrown);
    if (suspension !== undefined) return suspension;
    if (this.#refusal !== undefined) return returnedInvalid(this.job, this.#refusal.error);
    const { aborted } = this.#attempt;
    const policy = policyOf(this.#deps.options, this.job);
    // A timeout while the handler waited for the database is a fault of the database, not a failure of the handler.
    if (!this.#waitsForDatabase || !(aborted instanceof TimedOutError))
      return threw(this.job, thrown, aborted, policy, this.#fault);
    return threw(this.job, thrown, undefined, policy, this.#fault ?? { error: thrown });
  }

  /** The verdict on a handler that sleeps or waits, whatever it did after that. */
  #suspended(thrown?: unknown): Verdict | undefined {
    const suspension = this.#steps?.suspension;
    if (suspension === undefined) return undefined;
    if (!isSuspended(thrown))
      this.logger.warn(
        thrown === undefined ? {} : { err: thrown },
        `the handler caught the error that suspends it (${suspension.name}); the job is suspended all the same. Let that error pass`,
      );
    return suspended(this.job, suspension);
  }

  /** `complete` of the handler's context. */
  complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Completion {
    const completion = Completion.of(async () => await this.#complete(work, tx));
    (this.#completions ??= []).push(completion);
    return completion;
  }

  /** The whole handler in one transaction. An outcome other than success rolls it back. */
  async #runAtomically(): Promise<Verdict | undefined> {
    const checked = await this.#check();
    let other: Verdict | undefined;
    await this.#inTransaction(async (tx) => {
      const { aborted } = this.#attempt;
      // The wait for a transaction may have been long. An attempt that was interrupted meanwhile is recorded already.
      if (aborted !== undefined) throw aborted;
      const value = await this.#call(checked, tx);
      await this.#progress?.ended();
      if (isOutcome(value) && value.type !== "continued") {
        other =
          this.#plan === undefined ? returned(this.job, value, null) : await this.#planned(value, this.#plan);
        throw new RolledBack();
      }
      return await this.#success(value);
    }).catch((error: unknown) => {
      if (!(error instanceof RolledBack)) throw error;
    });
    this.#completed = other === undefined;
    return other;
  }

  #call(checked: unknown, tx: Tx | undefined): unknown {
    const { options, leases } = this.#deps;
    const { serial } = this.#attempt;
    const context = new Context(this, checked, tx);
    const handler = (): unknown =>
      this.#handler.isolate === undefined ? this.#handler.run(context as never) : this.#isolated(context);
    const middlewares = middlewaresOf(options.middlewares, this.#handler);
    if (middlewares.length === 0) return leases.inHandler(serial, handler);
    return callHandler(handler, middlewares, context, (call) => leases.inHandler(serial, call));
  }

  #isolated(context: HandlerContext): unknown {
    const { options, isolated } = this.#deps;
    return isolated.run(this.#handler, context, {
      timeoutMs: timeoutOf(options, this.job),
      maxTimeoutMs: this.#maxTimeoutMs,
      leaseMs: this.job.leaseMs,
      abortMs: options.abortMs,
    });
  }

  /** A handler has not succeeded if it hides a refused result, a failed `complete` it did not await, or a failed transaction. */
  #throwUnhandled(value: unknown): void {
    const unhandled =
      this.#completions?.find((completion) => completion.unhandled !== undefined)?.unhandled ??
      this.#steps?.unhandled ??
      this.#progress?.unhandled;
    const failure = this.#refusal ?? unhandled ?? (isOutcome(value) ? undefined : this.#fault);
    if (failure !== undefined) throw failure.error;
  }

  async #complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Promise<Completed> {
    const { job } = this.job.fence;
    if (this.#completing || this.#completed)
      throw new InvalidOptionError("complete", `was already called for job ${job}`);
    if (this.#attempt.over)
      throw new InvalidOptionError("complete", `was called after the handler of job ${job} had ended`);
    if (tx !== undefined)
      throw new InvalidOptionError(
        "complete",
        "is not needed by an atomic kind: returning completes it. Use tx",
      );
    this.#completing = true;
    this.#refusal = undefined;
    try {
      await this.#inTransaction(async (own) => await this.#success(await work(own)));
      this.#completed = true;
      return completed;
    } finally {
      this.#completing = false;
    }
  }

  /** A success, with what the handler asked for until now. */
  async #success(value: unknown): Promise<Success> {
    const plan = this.#plan;
    if (plan === undefined) return { result: await this.#encode(value), plan: undefined };
    const result = await this.#encode(plan.outcomeOf(value));
    return { result, plan: plan.isEmpty ? undefined : await plan.toJson() };
  }

  async #inTransaction(work: (tx: Tx) => Promise<Success>): Promise<void> {
    const { db, gate, logger } = this.#deps;
    const { fence, kind, faults } = this.job;
    gate.needs(kind);
    this.#fault = undefined;
    const onFault: OnFault = (error, connected) => {
      this.#fault = { error };
      logger.warn(
        { err: error, job: fence.job, kind, faults },
        `${kind}: the database failed its transaction`,
      );
      if (!connected) gate.close(error);
    };
    const own = async (tx: Tx): Promise<Success> => await this.#outsideWait(work, tx);
    this.#waitsForDatabase = true;
    try {
      await gate.run(this.#handler.definition, () => completeInTransaction(db, fence, own, onFault));
    } finally {
      this.#waitsForDatabase = false;
    }
  }

  /** The handler's own part of the transaction: here a timeout is the handler's. */
  async #outsideWait(work: (tx: Tx) => Promise<Success>, tx: Tx): Promise<Success> {
    this.#waitsForDatabase = false;
    try {
      return await work(tx);
    } finally {
      this.#waitsForDatabase = true;
    }
  }

  async #encode(value: unknown): Promise<string | null> {
    return await encodeResult(value, this.#handler.definition, this.#deps, (error) => {
      this.#refusal = { error };
    });
  }
}

class RolledBack extends Error {}
