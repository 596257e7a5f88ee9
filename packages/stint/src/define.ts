import { InvalidOptionError } from "./errors.ts";
import { describe } from "./model/describe.ts";
import { checkName } from "./model/names.ts";
import { refuseUnknownKeys, requireBoolean, requireFunction, requireInteger } from "./model/options.ts";
import { toMs, type Duration } from "./model/duration.ts";
import { resolveQuietHours, type QuietHours, type ResolvedQuietHours } from "./model/quiet-hours.ts";
import {
  mostLimits,
  resolveLimits,
  resolveOrder,
  type LimitOptions,
  type OrderOptions,
  type ResolvedLimit,
  type ResolvedOrder,
} from "./model/limits.ts";
import { resolveUses, type ResolvedUse, type UseOptions } from "./model/dependencies.ts";
import { resolveBackoff, type Backoff, type ResolvedBackoff } from "./model/backoff.ts";
import type { InferIn, InferOut, StandardSchema } from "./model/standard-schema.ts";

/** The three types of a kind: the enqueued payload, the payload that the handler gets, and the result. */
export type JobTypes = { in: unknown; out: unknown; result: unknown };

/** Policy of a kind. The worker's defaults apply to options that are left out. */
export type KindOptions = {
  /** The number of attempts that failures may spend. Default 5. */
  attempts?: number;
  backoff?: Backoff;
  /** The longest one attempt may take. Default one hour. */
  timeout?: Duration;
  /** How long a claim lasts without renewal. Default 30 s. */
  lease?: Duration;
  /** How long a handler may raise its own timeout by `ctx.extend`, in all. Default: not at all. */
  maxTimeout?: Duration;
  /**
   * Report an attempt as stalled when it has finished no step and reported no checkpoint, progress or log line for so long. Default: never.
   */
  stallAfter?: Duration;
  /** Attempts start when these hours are over: the first one, retries and snoozes. */
  quietHours?: QuietHours;
  /** The number of crashes (its worker died while running it) after which a job is dead. Default 3. */
  maxCrashes?: number;
};

export type DefineOptions<In extends StandardSchema, Result extends StandardSchema> = KindOptions & {
  /** Checked when the job is enqueued and again before it runs. Any Standard Schema. */
  payload: In;
  /** Checked when the handler returns. */
  result?: Result;
  /** Default "default". */
  queue?: string;
  /** Smaller runs first. Default 0. */
  priority?: number;
  /** The business key of the logical work, from its payload. */
  key?: (payload: InferIn<In>) => string;
  /** Refuse to enqueue outside a transaction. */
  requiresTransaction?: boolean;
  /** Run the whole handler and its settling in one transaction. */
  atomic?: boolean;
  /** How many transactions its handlers may have at once in one worker, by `complete` or `atomic`, so that other kinds find connections. */
  maxTransactions?: number;
  /** The signals that its jobs receive. Any other name is refused where it is sent. Default: any. */
  signals?: readonly string[];
  /** How many of its jobs may run at once, over all workers. Several limits apply together. */
  limits?: readonly LimitOptions<InferIn<In>>[];
  /** Jobs with the same key run one at a time, in the order in which they were enqueued. */
  order?: OrderOptions<InferIn<In>>;
  /**
   * The outside systems that its jobs call: definitions made by `defineDependency`, or their names. A job starts when each of them allows it, and waits
   * without spending an attempt until then.
   */
  uses?: readonly UseOptions<InferIn<In>>[];
};

/** The contract of a kind. Enqueueing code and handlers both import it; it contains no handler code. */
export type JobDefinition<Types extends JobTypes = JobTypes> = {
  readonly kind: string;
  readonly queue: string;
  readonly priority: number | undefined;
  readonly payload: StandardSchema<unknown, unknown>;
  readonly result: StandardSchema<unknown, unknown> | undefined;
  readonly key: ((payload: never) => string) | undefined;
  readonly requiresTransaction: boolean;
  readonly atomic: boolean;
  readonly maxTransactions: number | undefined;
  readonly signals: readonly string[] | undefined;
  readonly limits: readonly ResolvedLimit[];
  readonly order: ResolvedOrder | undefined;
  readonly uses: readonly ResolvedUse[];
  readonly policy: KindPolicy;
  /** For the compiler only. */
  readonly types?: Types;
};

/** The payload type of a kind: `PayloadOf<typeof sendReceipt>`. Takes the definition, or the result of `enqueue`. */
export type PayloadOf<Job extends { readonly types?: JobTypes }> = NonNullable<Job["types"]>["in"];

/** The result type of a kind: `ResultOf<typeof sendReceipt>`. */
export type ResultOf<Job extends { readonly types?: JobTypes }> = NonNullable<Job["types"]>["result"];

/** Checked `KindOptions`. Undefined: left out. */
export type KindPolicy = {
  readonly attempts: number | undefined;
  readonly backoff: ResolvedBackoff | undefined;
  readonly timeoutMs: number | undefined;
  readonly leaseMs: number | undefined;
  readonly maxTimeoutMs: number | undefined;
  readonly stallAfterMs: number | undefined;
  readonly maxCrashes: number | undefined;
  readonly quietHours: ResolvedQuietHours | undefined;
};

const policyKeys = [
  "attempts",
  "backoff",
  "timeout",
  "maxTimeout",
  "stallAfter",
  "lease",
  "maxCrashes",
  "quietHours",
] as const;
const defineKeys = [
  ...policyKeys,
  "payload",
  "result",
  "queue",
  "priority",
  "key",
  "requiresTransaction",
  "atomic",
  "maxTransactions",
  "signals",
  "limits",
  "order",
  "uses",
] as const;

/**
 * Declare a kind of job.
 *
 * @throws {InvalidOptionError} A name or an option is not valid.
 */
export function defineJob<In extends StandardSchema, Result extends StandardSchema = StandardSchema>(
  kind: string,
  options: DefineOptions<In, Result>,
): JobDefinition<{ in: InferIn<In>; out: InferOut<In>; result: InferOut<Result> }> {
  checkName(kind, "defineJob(kind)");
  const what = `defineJob("${kind}")`;
  refuseUnknownKeys(what, options, defineKeys);
  requireSchema(`${what}.payload`, options.payload);
  if (options.result !== undefined) requireSchema(`${what}.result`, options.result);
  const queue = options.queue === undefined ? "default" : checkName(options.queue, `${what}.queue`);
  const limits =
    options.limits === undefined ? [] : resolveLimits(`${what}.limits`, { kind, queue }, options.limits);
  const uses = options.uses === undefined ? [] : resolveUses(`${what}.uses`, options.uses);
  if (limits.length + uses.length > mostLimits)
    throw new InvalidOptionError(
      `${what}.uses`,
      `must have at most ${mostLimits} entries together with limits`,
    );
  return Object.freeze({
    kind,
    queue,
    priority:
      options.priority === undefined ? undefined : requirePriority(`${what}.priority`, options.priority),
    payload: options.payload,
    result: options.result,
    key: options.key === undefined ? undefined : requireFunction(`${what}.key`, options.key),
    requiresTransaction:
      options.requiresTransaction !== undefined &&
      requireBoolean(`${what}.requiresTransaction`, options.requiresTransaction),
    atomic: options.atomic !== undefined && requireBoolean(`${what}.atomic`, options.atomic),
    maxTransactions:
      options.maxTransactions === undefined
        ? undefined
        : requireInteger(`${what}.maxTransactions`, options.maxTransactions, { min: 1, max: 1_000 }),
    signals: options.signals === undefined ? undefined : resolveSignals(`${what}.signals`, options.signals),
    limits,
    order: options.order === undefined ? undefined : resolveOrder(`${what}.order`, kind, options.order),
    uses,
    policy: resolveKindPolicy(what, options),
  });
}

function resolveSignals(option: string, signals: readonly string[]): readonly string[] {
  const given: unknown = signals;
  if (!Array.isArray(given))
    throw new InvalidOptionError(option, `must be an array of names, got ${describe(given)}`);
  if (given.length > 100)
    throw new InvalidOptionError(option, `must have at most 100 names, got ${given.length}`);
  return Object.freeze([...new Set(given.map((name, index) => checkName(name, `${option}[${index}]`)))]);
}

export function requirePriority(option: string, value: unknown): number {
  return requireInteger(option, value, { min: -32_768, max: 32_767 });
}

export function resolveKindPolicy(what: string, options: KindOptions): KindPolicy {
  const { attempts, backoff, timeout, maxTimeout, stallAfter, lease, maxCrashes, quietHours } = options;
  return Object.freeze({
    attempts:
      attempts === undefined
        ? undefined
        : requireInteger(`${what}.attempts`, attempts, { min: 1, max: 1000 }),
    backoff: backoff === undefined ? undefined : resolveBackoff(backoff, `${what}.backoff`),
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, `${what}.timeout`, { min: 1 }),
    maxTimeoutMs: maxTimeout === undefined ? undefined : toMs(maxTimeout, `${what}.maxTimeout`, { min: 1 }),
    stallAfterMs: stallAfter === undefined ? undefined : toMs(stallAfter, `${what}.stallAfter`, { min: 100 }),
    leaseMs: lease === undefined ? undefined : toMs(lease, `${what}.lease`, leaseLimits),
    maxCrashes:
      maxCrashes === undefined
        ? undefined
        : requireInteger(`${what}.maxCrashes`, maxCrashes, { min: 1, max: 100 }),
    quietHours: quietHours === undefined ? undefined : resolveQuietHours(`${what}.quietHours`, quietHours),
  });
}

/** Below a second, a slow round trip would lose the lease. Above a day, a crash would stay unnoticed too long. */
export const leaseLimits = { min: 1_000, max: 86_400_000 };

export const kindOptionKeys: readonly string[] = policyKeys;

function requireSchema(option: string, value: unknown): void {
  const schema = value as StandardSchema | null | undefined;
  if (typeof schema?.["~standard"]?.validate === "function") return;
  throw new InvalidOptionError(
    option,
    `must be a Standard Schema (zod, valibot, …), or typed<T>() for a type that is not checked, got ${describe(value)}`,
  );
}

/** A schema that gives a type and checks nothing: `payload: typed<{ id: string }>()`. */
export function typed<T>(): StandardSchema<T, T> {
  return { "~standard": { version: 1, vendor: "stint", validate: (value) => ({ value: value as T }) } };
}
