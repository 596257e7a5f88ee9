import type { Tx } from "../db/db.ts";
import { InvalidOptionError } from "../errors.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Completed } from "../model/outcome.ts";
import type { Logger } from "../runtime/logger.ts";
import type { HandlerContext } from "./handler.ts";

/** What a context asks of its attempt. */
export type AttemptOfContext = {
  readonly job: ClaimedJob;
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Promise<Completed>;
};

/** What a handler gets. Nothing of it is made before it is asked for: a plain job pays for its payload only. */
export class Context implements HandlerContext {
  readonly payload: unknown;
  readonly #attempt: AttemptOfContext;
  readonly #tx: Tx | undefined;

  constructor(attempt: AttemptOfContext, payload: unknown, tx: Tx | undefined) {
    this.payload = payload;
    this.#attempt = attempt;
    this.#tx = tx;
  }

  get #job(): ClaimedJob {
    return this.#attempt.job;
  }

  get id(): string {
    return this.#job.fence.job;
  }

  get kind(): string {
    return this.#job.kind;
  }

  get queue(): string {
    return this.#job.queue;
  }

  get key(): string {
    return this.#job.key ?? this.#job.fence.job;
  }

  get attempt(): number {
    return this.#job.attempt;
  }

  get maxAttempts(): number {
    return this.#attempt.maxAttempts;
  }

  get run(): number {
    return this.#job.run;
  }

  get createdAt(): Date {
    return new Date(this.#job.createdAt);
  }

  get tenant(): string | null {
    return this.#job.tenant;
  }

  get tags(): readonly string[] {
    return this.#job.tags;
  }

  get meta(): Readonly<Record<string, unknown>> {
    return this.#job.meta;
  }

  get fence(): Fence {
    return this.#job.fence;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  get logger(): Logger {
    return this.#attempt.logger;
  }

  get complete(): HandlerContext["complete"] {
    // The very promise, which knows whether it is awaited.
    return (work) => this.#attempt.complete(work, this.#tx);
  }

  get tx(): Tx {
    if (this.#tx !== undefined) return this.#tx;
    throw new InvalidOptionError(
      "tx",
      `is only there for a kind defined with atomic: true; ${this.kind} is not. Use complete(…)`,
    );
  }
}
