import { InvalidOptionError } from "./errors.ts";
import { describe } from "./model/describe.ts";
import { checkName } from "./model/names.ts";
import { refuseUnknownKeys, requireBoolean, requireFunction, requireInteger } from "./model/options.ts";
import { toMs, type Duration } from "./model/duration.ts";
import { resolveBackoff, type Backoff, type ResolvedBackoff } from "./model/backoff.ts";
import type { InferIn, InferOut, StandardSchema } from "./model/standard-schema.ts";

/** The three types of a kind: what is enqueued, what the handler gets, what it returns. */
export type JobTypes = { in: unknown; out: unknown; result: unknown };

/** Policy that a kind may set; the worker's defaults fill what is left out. */
export type KindOptions = {
  /** How many attempts failures may spend. Default 5. */
  attempts?: number;
  backoff?: Backoff;
  /** The longest one attempt may take. Default one hour. */
  timeout?: Duration;
  /** How long a claim lasts without renewal. Default 30 s. */
  lease?: Duration;
  /** How often its worker may die while running it before the job is dead. Default 3. */
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
};

/** The contract of one kind: what enqueues it and what handles it both import this, and no handler code. */
export type JobDefinition<Types extends JobTypes = JobTypes> = {
  readonly kind: string;
  readonly queue: string;
  readonly priority: number | undefined;
  readonly payload: StandardSchema<unknown, unknown>;
  readonly result: StandardSchema<unknown, unknown> | undefined;
  readonly key: ((payload: never) => string) | undefined;
  readonly requiresTransaction: boolean;
  readonly atomic: boolean;
  readonly policy: KindPolicy;
  /** For the compiler only. */
  readonly types?: Types;
};

/** What is enqueued for a kind: `PayloadOf<typeof sendReceipt>`. Takes the definition, or what `enqueue` resolved with. */
export type PayloadOf<Job extends { readonly types?: JobTypes }> = NonNullable<Job["types"]>["in"];

/** What the handler of a kind returns: `ResultOf<typeof sendReceipt>`. */
export type ResultOf<Job extends { readonly types?: JobTypes }> = NonNullable<Job["types"]>["result"];

/** `KindOptions`, checked. What is undefined was left out. */
export type KindPolicy = {
  readonly attempts: number | undefined;
  readonly backoff: ResolvedBackoff | undefined;
  readonly timeoutMs: number | undefined;
  readonly leaseMs: number | undefined;
  readonly maxCrashes: number | undefined;
};

const policyKeys = ["attempts", "backoff", "timeout", "lease", "maxCrashes"] as const;
const defineKeys = [
  ...policyKeys,
  "payload",
  "result",
  "queue",
  "priority",
  "key",
  "requiresTransaction",
  "atomic",
] as const;

/**
 * Declare a kind of job.
 *
 * @throws {InvalidOptionError} A name or an option cannot work.
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
  return Object.freeze({
    kind,
    queue: options.queue === undefined ? "default" : checkName(options.queue, `${what}.queue`),
    priority:
      options.priority === undefined ? undefined : requirePriority(`${what}.priority`, options.priority),
    payload: options.payload,
    result: options.result,
    key: options.key === undefined ? undefined : requireFunction(`${what}.key`, options.key),
    requiresTransaction:
      options.requiresTransaction !== undefined &&
      requireBoolean(`${what}.requiresTransaction`, options.requiresTransaction),
    atomic: options.atomic !== undefined && requireBoolean(`${what}.atomic`, options.atomic),
    policy: resolveKindPolicy(what, options),
  });
}

export function requirePriority(option: string, value: unknown): number {
  return requireInteger(option, value, { min: -32_768, max: 32_767 });
}

export function resolveKindPolicy(what: string, options: KindOptions): KindPolicy {
  const { attempts, backoff, timeout, lease, maxCrashes } = options;
  return Object.freeze({
    attempts:
      attempts === undefined
        ? undefined
        : requireInteger(`${what}.attempts`, attempts, { min: 1, max: 1000 }),
    backoff: backoff === undefined ? undefined : resolveBackoff(backoff, `${what}.backoff`),
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, `${what}.timeout`, { min: 1 }),
    leaseMs: lease === undefined ? undefined : toMs(lease, `${what}.lease`, leaseLimits),
    maxCrashes:
      maxCrashes === undefined
        ? undefined
        : requireInteger(`${what}.maxCrashes`, maxCrashes, { min: 1, max: 100 }),
  });
}

/** Shorter than a second, a slow round trip would lose the job; longer than a day, a crash would hide it. */
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

/** A payload that is only typed, never checked: `payload: typed<{ id: string }>()`. */
export function typed<T>(): StandardSchema<T, T> {
  return { "~standard": { version: 1, vendor: "stint", validate: (value) => ({ value: value as T }) } };
}
