import type { JobDefinition, JobTypes, KindOptions, KindPolicy } from "../define.ts";
import type { Tx } from "../db/db.ts";
import type { AgainOptions } from "./again.ts";
import type { Duration } from "../model/duration.ts";
import type { Fence } from "../model/job.ts";
import type { Completed, Continued, Outcome, WaitForChildren } from "../model/outcome.ts";
import type { StandardSchema } from "../model/standard-schema.ts";
import type { ScheduledSlot } from "../model/scheduled-slot.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Enqueued } from "../client/entries.ts";
import type { OnFailure } from "../sql/enqueue.ts";
import type { DependencyResult } from "../sql/flows.ts";
import type { Isolate, ResolvedIsolate } from "./isolation/isolate-options.ts";
import type { FollowOptions } from "./plan.ts";

/** How to wait for a signal. */
export type SignalOptions<Payload = unknown> = {
  /** How long to wait. Default: for ever. */
  readonly timeout?: Duration;
  /** Checks the payload of the signal, and gives its type. Any Standard Schema, or `typed<T>()`. */
  readonly schema?: StandardSchema<unknown, Payload>;
};

/** `ctx.waitForSignal`. */
export type WaitForSignal = {
  /** Resolves with the payload of the signal, or with undefined after `timeout`. */
  <Payload = unknown>(
    name: string,
    options: SignalOptions<Payload> & { timeout: Duration },
  ): Promise<Payload | undefined>;
  /** Resolves with the payload of the signal. */
  <Payload = unknown>(name: string, options?: SignalOptions<Payload>): Promise<Payload>;
};

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
  /** The schedule and the slot that enqueued this job; null for other jobs. Work out dates from the slot: the job may run late. */
  readonly schedule: ScheduledSlot | null;
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
  readonly complete: (
    work: (tx: Tx) => Promise<Result | Continued> | Result | Continued,
  ) => Promise<Completed>;
  /**
   * Continue the chain: the job succeeds, and `next` exists, in the same transaction. `waitFor` on the first job of the chain returns the result of
   * the last one, so a kind can be continued by kinds whose result fits its own. Return what this returns.
   */
  readonly continueWith: <Next extends JobTypes & { result: Result }>(
    next: JobDefinition<Next>,
    payload: NoInfer<Next["in"]>,
    options?: FollowOptions,
  ) => Continued;
  /** Enqueue a child when this attempt is settled, in the same transaction. An attempt that fails enqueues none. */
  readonly spawn: <Child extends JobTypes>(
    child: JobDefinition<Child>,
    payload: NoInfer<Child["in"]>,
    options?: FollowOptions,
  ) => Enqueued<Child>;
  /**
   * Return this to park the job until the children spawned by this attempt have ended. It holds no slot meanwhile. Then the handler runs again, and
   * `results` has what they returned.
   */
  readonly waitForChildren: (options?: { onFailure?: OnFailure }) => WaitForChildren;
  /** What the jobs of this kind that this one waited for returned, in the order given; without a kind, all of them. */
  readonly results: {
    <Types extends JobTypes>(job: JobDefinition<Types>): Promise<DependencyResult<Types["result"]>[]>;
    (): Promise<DependencyResult[]>;
  };
  /**
   * Run `work` once, and remember its result: a later attempt gets the result and does not run it again. Every attempt must call the same steps
   * in the same order.
   *
   * @throws {StepOrderError} The job remembers another step in this place.
   * @throws {InvalidPayloadError} The result would not survive JSON, or is too large.
   * @throws {LeaseLostError} Another worker owns the job; the result was not remembered.
   */
  readonly step: <T>(name: string, work: () => Promise<T> | T) => Promise<T>;
  /** Leave the slot, and continue after this time. The handler is called again then, and its finished steps return their results. */
  readonly sleep: (until: Duration | Date) => Promise<void>;
  /** Leave the slot until `stint.signal(…)` sends this signal to the job. A signal that was sent before is received at once. */
  readonly waitForSignal: WaitForSignal;
  /**
   * Store where a loop stands, in place of the last checkpoint. A later attempt reads it by `lastCheckpoint()` and continues from there.
   *
   * @throws {InvalidPayloadError} The value would not survive JSON, or is too large.
   * @throws {LeaseLostError} Another worker owns the job; the checkpoint was not stored.
   */
  readonly checkpoint: (value: unknown) => Promise<void>;
  /** The last checkpoint of the job; undefined if it has none. */
  readonly lastCheckpoint: <T = unknown>() => Promise<T | undefined>;
  /** Show people how far the job is, from 0 to 1, and what it does. */
  readonly progress: (fraction: number, note?: string) => void;
  /** Keep a line with the job, for people. The latest 100 lines stay, each up to 1,000 bytes. */
  readonly log: (text: string) => void;
  /**
   * Let this attempt run for so long from now, if that is longer than it has left. Never beyond the `maxTimeout` of its kind, counted from the
   * start of the attempt. Returns the milliseconds that it has left.
   *
   * @throws {InvalidOptionError} The kind has no `maxTimeout`.
   */
  readonly extend: (duration: Duration) => number;
  /**
   * Plan the next run of this job: `await again({ in: "24h" })`. It is enqueued in the statement in which this job succeeds or dies, with
   * the same kind, queue, key, dedupe key and options. The latest call counts; a success of an attempt that did not call it ends the
   * series, and so does cancelling.
   *
   * @throws {LeaseLostError} Another worker owns the job.
   */
  readonly again: (next: AgainOptions) => Promise<void>;
  /** The transaction an `atomic` kind runs in. Any other kind has none. */
  readonly tx: Tx;
};

export type HandlerFunction<Payload, Result> = (
  context: HandlerContext<Payload, Result>,
) => Promise<Result | Outcome | Completed> | Result | Outcome | Completed;

/**
 * Wraps each attempt. Call `next` to continue; it resolves with what the handler returned. Values that are passed to `next` become properties of
 * the context for the middlewares and the handler inside: `Middleware<{ tenantDb: Db }>` calls `next({ tenantDb })`.
 */
export type Middleware<Added extends object = object> = (
  context: HandlerContext,
  next: object extends Added ? (added?: Added) => Promise<unknown> : (added: Added) => Promise<unknown>,
) => Promise<unknown>;

/** A middleware that adds any values. */
export type AnyMiddleware = (
  context: HandlerContext,
  next: (added?: unknown) => Promise<unknown>,
) => Promise<unknown>;

type AddedBy<One> = One extends (context: HandlerContext, next: infer Next) => Promise<unknown>
  ? Next extends (added: infer Added) => Promise<unknown>
    ? NonNullable<Added>
    : unknown
  : unknown;

/** What these middlewares add to the context, together. */
export type AddedByAll<All extends readonly AnyMiddleware[]> = All extends readonly [
  infer First,
  ...infer Rest extends readonly AnyMiddleware[],
]
  ? AddedBy<First> & AddedByAll<Rest>
  : unknown;

export type HandleOptions<Middlewares extends readonly AnyMiddleware[] = readonly AnyMiddleware[]> =
  KindOptions & {
    /** Wrap each attempt of this kind, inside the middlewares of the worker. One that the worker has, too, runs once. */
    middlewares?: Middlewares;
  };

/** Options of a handler that runs in a thread or a process of its own. */
export type IsolatedHandleOptions<Middlewares extends readonly AnyMiddleware[] = readonly AnyMiddleware[]> =
  HandleOptions<Middlewares> & { isolate: Isolate };

/** Checked `BatchOptions`. */
export type ResolvedBatch = { readonly size: number; readonly waitMs: number };

/** A kind and its handler, made by `handle`. */
export type Handler = {
  readonly definition: JobDefinition;
  readonly run: HandlerFunction<never, unknown>;
  readonly policy: KindPolicy;
  /** Of this kind, inside those of the worker. */
  readonly middlewares?: readonly AnyMiddleware[];
  /** With it, `run` takes an array of items. */
  readonly batch?: ResolvedBatch | undefined;
  /** Whether this job waits for others of its batch. */
  readonly isGathering?: (id: string) => boolean;
  /** With it, the handler is in another file and runs in a thread or process of its own; `run` only throws. */
  readonly isolate?: ResolvedIsolate | undefined;
};
