import type { Db, Tx } from "../db/db.ts";
import { InvalidOptionError, StoppingError, TimedOutError } from "../errors.ts";
import { encodeJson } from "../model/json.ts";
import type { ClaimedJob } from "../model/job.ts";
import { isOutcome } from "../model/outcome.ts";
import { validate } from "../model/standard-schema.ts";
import type { Logger } from "../runtime/logger.ts";
import { completeInTransaction } from "./complete.ts";
import type { Handler, HandlerContext, Middleware } from "./handler.ts";
import { returned, threw, type AttemptPolicy, type Verdict } from "./verdict.ts";

export type AttemptOptions = {
  readonly db: Db;
  readonly handler: Handler;
  readonly middlewares: readonly Middleware[];
  readonly policy: AttemptPolicy;
  readonly timeoutMs: number;
  /** How long a handler that was told to stop may take to do so before its outcome is recorded without it. */
  readonly abortMs: number;
  readonly maxResultBytes: number;
  /** Made only when asked for: most attempts log nothing of their own. */
  readonly logger: () => Logger;
  /** Calls the handler where the lease thread can see whose it is. */
  readonly enter: <T>(call: () => T) => T;
};

/** What is to be recorded; undefined when the handler has recorded its success itself. */
export type AttemptEnd = {
  verdict: Verdict | undefined;
  /** Settles when the handler does. Later than the end, if it ignores its signal. */
  handler: Promise<unknown>;
};

/** One run of one job: from claimed to a verdict. */
export class Attempt {
  readonly job: ClaimedJob;
  readonly startedAt = performance.now();
  readonly #options: AttemptOptions;
  readonly #abort = new AbortController();
  #completed = false;

  constructor(job: ClaimedJob, options: AttemptOptions) {
    this.job = job;
    this.#options = options;
  }

  /** Tell the handler to stop, and why. The first reason stays. */
  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  get aborted(): unknown {
    return this.#abort.signal.reason;
  }

  /** Run the handler to its end, or to the end of our patience with it. Never rejects. */
  async run(): Promise<AttemptEnd> {
    const { timeoutMs, policy } = this.#options;
    const timer = this.#startTimeout(timeoutMs);
    const running = this.#work();
    const handler = running.catch(() => undefined);
    try {
      const verdict = await Promise.race([running, this.#patience()]);
      return { verdict, handler };
    } catch (thrown) {
      if (this.#completed) {
        this.#options
          .logger()
          .warn({ err: thrown }, "the handler threw after it had completed its job; the job stays succeeded");
        return { verdict: undefined, handler };
      }
      return { verdict: threw(this.job, thrown, this.aborted, policy), handler };
    } finally {
      timer.clear();
    }
  }

  async #work(): Promise<Verdict | undefined> {
    const { handler, db } = this.#options;
    const { kind, payload } = this.job;
    const checked = await validate(handler.definition.payload, payload, { kind, root: "payload" });
    if (handler.definition.atomic) return await this.#workAtomically(db, checked);

    const value = await this.#call(this.#context(checked, undefined));
    if (this.#completed) return undefined;
    return returned(this.job, value, await this.#encode(value));
  }

  /** The whole handler in one transaction; an outcome other than success leaves nothing of it. */
  async #workAtomically(db: Db, checked: unknown): Promise<Verdict | undefined> {
    let other: Verdict | undefined;
    await completeInTransaction(db, this.job.fence, async (tx) => {
      // The wait for a transaction may have been long. What was told to stop, and recorded, must not begin.
      this.#abort.signal.throwIfAborted();
      const value = await this.#call(this.#context(checked, tx));
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

  async #call(context: HandlerContext): Promise<unknown> {
    const { handler, middlewares, enter } = this.#options;
    const next = async (index: number): Promise<unknown> => {
      const middleware = middlewares[index];
      if (middleware === undefined) return await enter(() => handler.run(context as never));
      return await enter(() => middleware(context, () => next(index + 1)));
    };
    return await next(0);
  }

  #context(payload: unknown, tx: Tx | undefined): HandlerContext {
    const {
      job,
      job: { fence, kind },
    } = this;
    const { logger } = this.#options;
    return {
      id: fence.job,
      kind,
      queue: job.queue,
      payload,
      key: job.key ?? fence.job,
      attempt: job.attempt,
      maxAttempts: this.#options.policy.maxAttempts,
      run: job.run,
      createdAt: job.createdAt,
      tenant: job.tenant,
      tags: job.tags,
      meta: job.meta,
      fence,
      signal: this.#abort.signal,
      get logger(): Logger {
        return logger();
      },
      complete: async (work) => await this.#complete(work, tx),
      get tx(): Tx {
        if (tx !== undefined) return tx;
        throw new InvalidOptionError(
          "tx",
          `is only there for a kind defined with atomic: true; ${kind} is not. Use complete(…)`,
        );
      },
    };
  }

  async #complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Promise<void> {
    if (this.#completed)
      throw new InvalidOptionError("complete", `was already called for job ${this.job.fence.job}`);
    if (tx !== undefined)
      throw new InvalidOptionError(
        "complete",
        "is not needed by an atomic kind: returning completes it. Use tx",
      );
    await completeInTransaction(
      this.#options.db,
      this.job.fence,
      async (own) => await this.#encode(await work(own)),
    );
    this.#completed = true;
  }

  async #encode(value: unknown): Promise<string | null> {
    if (value === undefined || isOutcome(value)) return null;
    const { handler, maxResultBytes } = this.#options;
    const { kind } = this.job;
    const { result } = handler.definition;
    const checked = result === undefined ? value : await validate(result, value, { kind, root: "result" });
    return encodeJson(checked, { kind, root: "result", maxBytes: maxResultBytes });
  }

  #startTimeout(timeoutMs: number): { clear(): void } {
    // Longer than a timer can count. The lease thread can: it renews no further, and then tells that the lease is lost.
    if (timeoutMs > 2 ** 31 - 1) return { clear: () => undefined };
    const timer = setTimeout(() => this.abort(new TimedOutError(this.job.fence.job, timeoutMs)), timeoutMs);
    return { clear: () => clearTimeout(timer) };
  }

  /** Rejects with the reason some time after the signal aborted, for a handler that does not listen. */
  async #patience(): Promise<never> {
    return await new Promise((_, reject) => {
      const lose = (): void => {
        // A stopping worker waits for as long as it was told to, then hands back what is left, all at once.
        if (this.aborted instanceof StoppingError) return;
        setTimeout(() => reject(this.aborted as Error), this.#patienceMs()).unref();
      };
      this.#abort.signal.addEventListener("abort", lose, { once: true });
    });
  }

  #patienceMs(): number {
    const { abortMs } = this.#options;
    // After a timeout the lease is renewed no more: waiting for its end would turn the timeout into a crash.
    return this.aborted instanceof TimedOutError ? Math.min(abortMs, this.job.leaseMs / 2) : abortMs;
  }
}

class RolledBack extends Error {}
