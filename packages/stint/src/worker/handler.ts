import {
  kindOptionKeys,
  resolveKindPolicy,
  type JobDefinition,
  type JobTypes,
  type KindOptions,
  type KindPolicy,
} from "../define.ts";
import type { Tx } from "../db/db.ts";
import type { Fence } from "../model/job.ts";
import { refuseUnknownKeys, requireFunction } from "../model/options.ts";
import type { Completed, Outcome } from "../model/outcome.ts";
import type { Logger } from "../runtime/logger.ts";

/** What a handler can read and do. */
export type HandlerContext<Payload = unknown, Result = unknown> = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly payload: Payload;
  /** The business key of the logical work, or the job's id if it has none. */
  readonly key: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Which run of the job this is: one more at every replay. */
  readonly run: number;
  readonly createdAt: Date;
  readonly tenant: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** Pass this to systems that can refuse a caller whose epoch is not the newest. */
  readonly fence: Fence;
  /** Aborts when the lease is lost, time is up, the job is cancelled, or the worker must stop. Its reason says which. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /**
   * Commit your own writes and the success of this job in one transaction, or neither. Return what it resolves with where
   * the kind declares a result: `return await complete(…)`.
   *
   * @throws {LeaseLostError} Another worker owns the job; your writes were rolled back.
   */
  readonly complete: (work: (tx: Tx) => Promise<Result> | Result) => Promise<Completed>;
  /** The transaction an `atomic` kind runs in. Any other kind has none. */
  readonly tx: Tx;
};

export type HandlerFunction<Payload, Result> = (
  context: HandlerContext<Payload, Result>,
) => Promise<Result | Outcome | Completed> | Result | Outcome | Completed;

/** Wraps each attempt. Call `next` to go on; it resolves with what the handler returned. */
export type Middleware = (context: HandlerContext, next: () => Promise<unknown>) => Promise<unknown>;

/** A kind and its handler, made by `handle`. */
export type Handler = {
  readonly definition: JobDefinition;
  readonly run: HandlerFunction<never, unknown>;
  readonly policy: KindPolicy;
};

/**
 * Pair a kind with its handler. Options given here override those of the definition, for the jobs this worker runs.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function handle<Types extends JobTypes>(
  definition: JobDefinition<Types>,
  run: HandlerFunction<Types["out"], Types["result"]>,
  options: KindOptions = {},
): Handler {
  const what = `handle("${definition.kind}")`;
  requireFunction(what, run);
  refuseUnknownKeys(what, options, kindOptionKeys);
  const own = resolveKindPolicy(what, options);
  const { policy } = definition;
  return Object.freeze({
    definition,
    run,
    policy: {
      attempts: own.attempts ?? policy.attempts,
      backoff: own.backoff ?? policy.backoff,
      timeoutMs: own.timeoutMs ?? policy.timeoutMs,
      leaseMs: own.leaseMs ?? policy.leaseMs,
      maxCrashes: own.maxCrashes ?? policy.maxCrashes,
    },
  });
}
