import {
  kindOptionKeys,
  resolveKindPolicy,
  type JobDefinition,
  type JobTypes,
  type KindOptions,
  type KindPolicy,
} from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { refuseUnknownKeys, requireFunction } from "../model/options.ts";
import { resolveBatch, type BatchOf, type BatchHandlerOptions } from "./batch.ts";
import type {
  AddedByAll,
  AnyMiddleware,
  Handler,
  HandlerContext,
  HandlerFunction,
  HandleOptions,
  ResolvedBatch,
} from "./handler.ts";

/** With `batch`, one call handles several jobs. Each stays a job of its own, with its own slot, lease, timeout and outcome. */
export function handle<Types extends JobTypes, const Middlewares extends readonly AnyMiddleware[] = []>(
  definition: JobDefinition<Types>,
  options: HandleOptions<Middlewares> & { batch: BatchHandlerOptions },
  run: BatchOf<Types, AddedByAll<Middlewares>>,
): Handler;
export function handle<Types extends JobTypes, const Middlewares extends readonly AnyMiddleware[] = []>(
  definition: JobDefinition<Types>,
  options: HandleOptions<Middlewares>,
  run: (
    context: HandlerContext<Types["out"], Types["result"]> & AddedByAll<Middlewares>,
  ) => ReturnType<HandlerFunction<Types["out"], Types["result"]>>,
): Handler;
/**
 * Pair a kind with its handler. Options given here override those of the definition, for the jobs this worker runs.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function handle<Types extends JobTypes>(
  definition: JobDefinition<Types>,
  run: HandlerFunction<Types["out"], Types["result"]>,
  options?: KindOptions,
): Handler;
export function handle(definition: JobDefinition, second: unknown, third?: unknown): Handler {
  const what = `handle("${definition.kind}")`;
  const [run, options] = typeof second === "function" ? [second, third ?? {}] : [third, second ?? {}];
  requireFunction(what, run);
  refuseUnknownKeys(what, options, [...kindOptionKeys, "middlewares", "batch"]);
  const { middlewares = [], batch, ...own } = options as HandleOptions & { batch?: BatchHandlerOptions };
  for (const [index, one] of requireArray(`${what}.middlewares`, middlewares).entries())
    requireFunction(`${what}.middlewares[${index}]`, one);
  const policy = overridden(definition.policy, resolveKindPolicy(what, own));
  return Object.freeze({
    definition,
    run: run as HandlerFunction<never, unknown>,
    policy,
    middlewares: Object.freeze([...middlewares]),
    batch: batch === undefined ? undefined : batchOf(`${what}.batch`, batch, definition, policy),
  });
}

function overridden(policy: KindPolicy, own: KindPolicy): KindPolicy {
  return {
    attempts: own.attempts ?? policy.attempts,
    backoff: own.backoff ?? policy.backoff,
    timeoutMs: own.timeoutMs ?? policy.timeoutMs,
    maxTimeoutMs: own.maxTimeoutMs ?? policy.maxTimeoutMs,
    stallAfterMs: own.stallAfterMs ?? policy.stallAfterMs,
    leaseMs: own.leaseMs ?? policy.leaseMs,
    maxCrashes: own.maxCrashes ?? policy.maxCrashes,
    quietHours: own.quietHours ?? policy.quietHours,
  };
}

function batchOf(
  option: string,
  given: unknown,
  { atomic }: JobDefinition,
  { timeoutMs }: KindPolicy,
): ResolvedBatch {
  const batch = resolveBatch(option, given);
  if (atomic)
    throw new InvalidOptionError(
      option,
      "cannot be given to an atomic kind: each of its jobs runs in a transaction of its own",
    );
  if (timeoutMs !== undefined && batch.waitMs >= timeoutMs)
    throw new InvalidOptionError(
      `${option}.wait`,
      `must be shorter than the timeout of the kind (${timeoutMs} ms)`,
    );
  return batch;
}

function requireArray(option: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new InvalidOptionError(option, `must be an array, got ${describe(value)}`);
}
