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
import { resolveIsolate, type Isolate, type ResolvedIsolate } from "./isolation/isolate-options.ts";
import type {
  AddedByAll,
  AnyMiddleware,
  Handler,
  HandlerContext,
  HandlerFunction,
  HandleOptions,
  IsolatedHandleOptions,
  ResolvedBatch,
} from "./handler.ts";

/**
 * With `isolate`, the handler is the default export of another file, made by `handle(definition, fn)` there, and runs in a thread or a process of
 * its own. If it crashes or exceeds its memory, that costs one job and not the worker.
 */
export function handle<Types extends JobTypes>(
  definition: JobDefinition<Types>,
  file: URL | string,
  options: IsolatedHandleOptions,
): Handler;
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
  const isFile = second instanceof URL || typeof second === "string";
  const isFirst = isFile || typeof second === "function";
  const [run, options] = isFirst ? [second, third ?? {}] : [third, second ?? {}];
  if (!isFile) requireFunction(what, run);
  refuseUnknownKeys(what, options, [...kindOptionKeys, "middlewares", "batch", "isolate"]);
  const { middlewares = [], batch, isolate, ...own } = options as HandleOptions & Others;
  for (const [index, one] of requireArray(`${what}.middlewares`, middlewares).entries())
    requireFunction(`${what}.middlewares[${index}]`, one);
  const policy = overridden(definition.policy, resolveKindPolicy(what, own));
  return Object.freeze({
    definition,
    run: (isFile ? notHere : run) as HandlerFunction<never, unknown>,
    policy,
    middlewares: Object.freeze([...middlewares]),
    batch: batch === undefined ? undefined : batchOf(`${what}.batch`, batch, definition, policy),
    isolate: isFile
      ? isolateOf(what, { isolate, file: second, batch, definition })
      : refuseIsolate(what, isolate),
  });
}

type Others = { batch?: BatchHandlerOptions; isolate?: Isolate };

function notHere(): never {
  throw new Error("an isolated handler runs in its own thread or process");
}

function isolateOf(
  what: string,
  given: { isolate: unknown; file: unknown; batch: unknown; definition: JobDefinition },
): ResolvedIsolate {
  if (given.definition.atomic)
    throw new InvalidOptionError(
      `${what}.isolate`,
      "cannot be given to an atomic kind: its transaction belongs to the worker",
    );
  if (given.batch !== undefined)
    throw new InvalidOptionError(`${what}.isolate`, "cannot be given together with batch");
  return resolveIsolate(what, given.isolate, given.file);
}

function refuseIsolate(what: string, isolate: unknown): undefined {
  if (isolate !== undefined)
    throw new InvalidOptionError(
      `${what}.isolate`,
      'needs the file of the handler in place of its function, as in handle(job, new URL("./render.js", import.meta.url), { isolate })',
    );
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
