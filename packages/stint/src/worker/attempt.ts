import type { Db, Tx } from "../db/db.ts";
import { InvalidOptionError, StoppingError, TimedOutError } from "../errors.ts";
import { encodeJson } from "../model/json.ts";
import type { ClaimedJob } from "../model/job.ts";
import { completed, isOutcome, type Completed } from "../model/outcome.ts";
import { isThenable, validate } from "../model/standard-schema.ts";
import { traceIdOf, type AttemptTrace } from "../model/telemetry.ts";
import type { Logger } from "../runtime/logger.ts";
import { longestTimerMs } from "../runtime/sleep.ts";
import { callHandler } from "./call-handler.ts";
import { completeInTransaction } from "./complete.ts";
import { Completion } from "./completion.ts";
import { Context, type AttemptOfContext } from "./context.ts";
import type { Handler, HandlerContext, Middleware } from "./handler.ts";
import type { AttemptEvent } from "./events.ts";
import type { LeasedJob } from "./claim-leases.ts";
import { released, returned, returnedInvalid, threw, type AttemptPolicy, type Verdict } from "./verdict.ts";

/** What all attempts of a worker have in common. */
export type AttemptDeps = {
  readonly db: Db;
  /** Undefined where nothing is traced. */
  readonly trace: ((job: ClaimedJob) => AttemptTrace) | undefined;
  readonly middlewares: readonly Middleware[];
  /** How long a handler that was told to stop may take to do so before its outcome is recorded without it. */
  readonly abortMs: number;
  readonly maxResultBytes: number;
  /** A handler of this kind is about to be given a transaction. */
  readonly onLend: (job: ClaimedJob) => void;
  /** The database failed it. `connected`: there was a connection. */
  readonly onFault: (job: ClaimedJob, fault: unknown, connected: boolean) => void;
  /** A kind without a result schema returned what cannot be stored. */
  readonly onUnstorable: (job: ClaimedJob, refusal: unknown) => void;
  readonly loggerOf: (job: ClaimedJob, traceId: string | undefined) => Logger;
  readonly policyOf: (job: ClaimedJob) => AttemptPolicy;
  readonly timeoutOf: (job: ClaimedJob) => number;
  /** Calls the handler where the lease thread can see whose it is. */
  readonly enter: <T>(serial: number, call: () => T) => T;
  /** Asks, later in this turn of the event loop, for a timer for this attempt, if it is not over by then. */
  readonly watch: (attempt: Attempt) => void;
  /** Its handler is about to be called. */
  readonly onBegan: (attempt: Attempt) => void;
  /** It has its verdict, or has recorded its success itself. May come before the handler is over. */
  readonly onVerdict: (attempt: Attempt, toRecord: boolean) => void;
  /** The handler is over, however it ended. */
  readonly onOver: (attempt: Attempt) => void;
};

/** One run of one job: from claimed to a verdict. */
export class Attempt implements AttemptOfContext {
  readonly job: ClaimedJob;
  readonly startedAt = performance.now();
  readonly #handler: Handler;
  readonly #entry: LeasedJob;
  readonly #deps: AttemptDeps;
  /** Made when somebody asks for its signal: most handlers do not, and it is the dearest part of an attempt. */
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #completing = false;
  #completed = false;
  /** Every call of `complete`. Made when it is called: most handlers do not. */
  #completions: Completion[] | undefined;
  /** How the database failed the last transaction that the handler was given, if it did. */
  #fault: { readonly error: unknown } | undefined;
  /** The handler waits for the database: for its transaction to begin, or to be settled and committed. */
  #waitsForDatabase = false;
  /** Why the result schema refused what was returned, if it did. */
  #refusal: { readonly error: unknown } | undefined;
  #decided = false;
  /** Its handler was called, or was about to be. */
  began = false;
  /** The handler has ended. Later than its verdict, if it ignores its signal. */
  over = false;
  /** Where its record stands: its outcome is on its way, is on record, or is no longer this attempt's business. */
  record: "open" | "under way" | "closed" | "handed back" = "open";
  /** What its handler threw, as it was thrown. */
  thrown: { readonly value: unknown } | undefined;
  #verdict: Verdict | undefined;
  #trace: AttemptTrace | undefined;

  constructor(entry: LeasedJob, handler: Handler, deps: AttemptDeps) {
    this.job = entry.job;
    this.#entry = entry;
    this.#handler = handler;
    this.#deps = deps;
  }

  /** How it is to be recorded. Only of an attempt that is decided and has not recorded itself. */
  get verdict(): Verdict {
    if (this.#verdict === undefined) throw new Error(`attempt of job ${this.job.fence.job} has no verdict`);
    return this.#verdict;
  }

  /** Its lease need not be kept any longer. */
  letGo(): void {
    this.#entry.held.over(this.#entry.index);
  }

  /** Undefined where nothing is traced, and before it began. */
  get trace(): AttemptTrace | undefined {
    return this.#trace;
  }

  get maxAttempts(): number {
    return this.#deps.policyOf(this.job).maxAttempts;
  }

  get logger(): Logger {
    return this.#deps.loggerOf(this.job, this.traceId);
  }

  /** Of the trace it belongs to, or was enqueued in. */
  get traceId(): string | undefined {
    return this.#trace?.traceId ?? traceIdOf(this.job.meta);
  }

  /** Which attempt it is, as events and logs say it. */
  get described(): AttemptEvent {
    const { fence, kind, key, attempt } = this.job;
    const { traceId } = this;
    const event = { id: fence.job, kind, key, attempt };
    return traceId === undefined ? event : { ...event, traceId };
  }

  /** Why it was told to stop, if it was. */
  get aborted(): Error | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Tell the handler to stop, and why. The first reason stays. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    // A stopping worker waits for as long as it was told to, then hands back what is left, all at once.
    if (reason instanceof StoppingError) return;
    setTimeout(() => this.#threw(reason), this.#patienceMs()).unref();
  }

  /** Told to stop before it began. */
  release(): void {
    this.#end(() => this.#decide(released(this.job)));
  }

  /** Taken out of its handler's hands: the worker stops. */
  handBack(): void {
    this.record = "handed back";
    this.#trace?.ended({ outcome: "released", state: "ready" });
  }

  /** Run the handler to its end, or to the end of our patience with it. Never throws. */
  run(): void {
    this.began = true;
    try {
      const trace = (this.#trace = this.#deps.trace?.(this.job));
      this.#deps.onBegan(this);
      const working = trace === undefined ? this.#work() : trace.run(() => this.#work());
      working.then(
        (verdict) => this.#end(() => this.#decide(verdict)),
        (thrown: unknown) => this.#end(() => this.#threw(thrown)),
      );
      this.#deps.watch(this);
    } catch (error) {
      this.#end(() => this.#threw(error));
    }
  }

  /** The last line of defence: whatever goes wrong while it is decided, it is decided, and its slot is free. */
  #end(decide: () => void): void {
    if (this.over) return;
    try {
      decide();
    } catch (error) {
      this.logger.error({ err: error }, "an attempt could not be decided; it counts as failed");
      this.#threw(error);
    } finally {
      this.over = true;
      clearTimeout(this.#timer);
      this.#deps.onOver(this);
    }
  }

  #decide(verdict: Verdict | undefined): void {
    if (this.#decided) return;
    this.#decided = true;
    this.#verdict = verdict;
    const first = this.#trace?.ended({
      outcome: verdict?.ending?.outcome ?? "succeeded",
      state: verdict?.state ?? "succeeded",
      error: verdict?.ending?.error,
    });
    if (first !== undefined && verdict?.ends === false) this.#verdict = { ...verdict, first };
    this.#deps.onVerdict(this, verdict !== undefined);
  }

  #threw(thrown: unknown): void {
    if (this.#decided) return;
    this.thrown = { value: thrown };
    if (!this.#completed && this.#refusal !== undefined)
      return this.#decide(returnedInvalid(this.job, this.#refusal.error));
    if (!this.#completed) {
      // The time ran out while the database kept the handler waiting, which is no failure of the handler.
      const isFault = this.#waitsForDatabase && this.#reason instanceof TimedOutError;
      const fault = this.#fault ?? (isFault ? { error: thrown } : undefined);
      const aborted = isFault ? undefined : this.#reason;
      return this.#decide(threw(this.job, thrown, aborted, this.#deps.policyOf(this.job), fault));
    }
    this.logger.warn(
      { err: thrown },
      "the handler threw after it had completed its job; the job stays succeeded",
    );
    this.#decide(undefined);
  }

  async #work(): Promise<Verdict | undefined> {
    const { definition } = this.#handler;
    const { kind, payload } = this.job;
    let checked: unknown = validate(definition.payload, payload, { kind, root: "payload" });
    if (isThenable(checked)) checked = await checked;
    if (definition.atomic) return await this.#workAtomically(checked);

    let value: unknown;
    try {
      value = await this.#call(new Context(this, checked, undefined));
    } finally {
      for (const completion of this.#completions ?? []) await completion.ended();
    }
    if (this.#completed) return undefined;
    this.#throwUnheard(value);
    const isNothing = value === undefined && definition.result === undefined;
    return returned(this.job, value, isNothing ? null : await this.#encode(value));
  }

  /** A handler that does not await `complete`, or hides that its result was refused or that the database failed it, has not succeeded. */
  #throwUnheard(value: unknown): void {
    const unheard = this.#completions?.find((completion) => completion.unheard !== undefined)?.unheard;
    const failure = this.#refusal ?? unheard ?? (isOutcome(value) ? undefined : this.#fault);
    if (failure !== undefined) throw failure.error;
  }

  /** The whole handler in one transaction; an outcome other than success leaves nothing of it. */
  async #workAtomically(checked: unknown): Promise<Verdict | undefined> {
    let other: Verdict | undefined;
    await this.#lend(async (tx) => {
      // The wait for a transaction may have been long. What was told to stop, and recorded, must not begin.
      if (this.#reason !== undefined) throw this.#reason;
      const value = await this.#call(new Context(this, checked, tx));
      if (isOutcome(value)) {
        other = returned(this.job, value, null);
        throw new RolledBack();
      }
      return await this.#encode(value);
    }).catch((error: unknown) => {
      if (!(error instanceof RolledBack)) throw error;
    });
    this.#completed = other === undefined;
    return other;
  }

  async #lend(work: (tx: Tx) => Promise<string | null>): Promise<void> {
    const { db, onLend, onFault } = this.#deps;
    onLend(this.job);
    this.#fault = undefined;
    this.#waitsForDatabase = true;
    const watched = async (tx: Tx): Promise<string | null> => {
      this.#waitsForDatabase = false;
      try {
        return await work(tx);
      } finally {
        this.#waitsForDatabase = true;
      }
    };
    try {
      await completeInTransaction(db, this.job.fence, watched, (error, connected) => {
        this.#fault = { error };
        onFault(this.job, error, connected);
      });
    } finally {
      this.#waitsForDatabase = false;
    }
  }

  #call(context: HandlerContext): unknown {
    const { middlewares, enter } = this.#deps;
    const serial = this.#entry.held.serial(this.#entry.index);
    const handler = (): unknown => this.#handler.run(context as never);
    return callHandler(handler, middlewares, context, (call) => enter(serial, call));
  }

  /** What `complete` of the handler's context does. */
  complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Completion {
    const completion = Completion.of(async () => await this.#complete(work, tx));
    (this.#completions ??= []).push(completion);
    return completion;
  }

  async #complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Promise<Completed> {
    const { job } = this.job.fence;
    if (this.#completing || this.#completed)
      throw new InvalidOptionError("complete", `was already called for job ${job}`);
    if (this.over)
      throw new InvalidOptionError("complete", `was called after the handler of job ${job} had ended`);
    if (tx !== undefined)
      throw new InvalidOptionError(
        "complete",
        "is not needed by an atomic kind: returning completes it. Use tx",
      );
    this.#completing = true;
    this.#refusal = undefined;
    try {
      const encoded = async (own: Tx): Promise<string | null> => await this.#encode(await work(own));
      await this.#lend(encoded);
      this.#completed = true;
      return completed;
    } finally {
      this.#completing = false;
    }
  }

  async #encode(value: unknown): Promise<string | null> {
    if (isOutcome(value)) return null;
    const { kind } = this.job;
    const { result } = this.#handler.definition;
    const options = { kind, root: "result", maxBytes: this.#deps.maxResultBytes } as const;
    try {
      const checked = result === undefined ? value : await validate(result, value, options);
      return checked === undefined ? null : encodeJson(checked, options);
    } catch (error) {
      if (result !== undefined) {
        this.#refusal = { error };
        throw error;
      }
      // The work is done, and no result was declared. A failure would only repeat the work.
      this.#deps.onUnstorable(this.job, error);
      return null;
    }
  }

  /** Count the time it may take. */
  startTimeout(): void {
    const timeoutMs = this.#deps.timeoutOf(this.job);
    // Longer than a timer can count. The lease thread can: it renews no further, and then tells that the lease is lost.
    if (timeoutMs > longestTimerMs) return;
    const timeOut = (): void => this.abort(new TimedOutError(this.job.fence.job, timeoutMs));
    this.#timer = setTimeout(timeOut, timeoutMs - (performance.now() - this.startedAt));
  }

  #patienceMs(): number {
    const { abortMs } = this.#deps;
    // After a timeout the lease is renewed no more: waiting for its end would turn the timeout into a crash.
    return this.#reason instanceof TimedOutError ? Math.min(abortMs, this.job.leaseMs / 2) : abortMs;
  }
}

class RolledBack extends Error {}
