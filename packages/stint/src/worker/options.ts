import type { ScheduleDefinition } from "../client/define-schedule.ts";
import { leaseLimits, type KindOptions } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { defaultBackoff, resolveBackoff, type ResolvedBackoff } from "../model/backoff.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { formatCount } from "../model/figures.ts";
import { checkName, checkText } from "../model/names.ts";
import { checkNameOrPattern, isPattern } from "../model/name-pattern.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import { refuseUnknownKeys, requireBoolean, requireFunction, requireInteger } from "../model/options.ts";
import { BatchCollector } from "./batch.ts";
import type { AnyMiddleware, Handler, HandlerContext } from "./handler.ts";

export type WorkerOptions = Omit<KindOptions, "quietHours"> & {
  /**
   * Slots by queue: how many of its jobs this worker runs at once. The queues of a pool share its slots and take turns. A pattern
   * such as `tenant-*` stands for every queue it matches that no other pool serves by name or by a longer pattern.
   */
  pools: Record<
    string,
    | number
    | {
        /** Default: the queue with the name of the pool. */
        queues?: readonly string[];
        slots: number;
        /** Keep the last free slots of the pool for urgent jobs: those of this priority or a smaller one. */
        reserve?: PoolReserve;
      }
  >;
  handlers: readonly Handler[];
  /**
   * The schedules that this code declares, made by `defineSchedule`. When the worker starts, the schedules of `owner` become these: new ones
   * are added, changed ones are changed, and those that are missing here are removed. Left out: they stay as they are.
   */
  schedules?: readonly ScheduleDefinition[];
  /** The service that declares `schedules`, such as "billing". Services with different owners never touch each other's schedules. */
  owner?: string;
  /** Wrap each attempt, the first outermost. */
  middlewares?: readonly AnyMiddleware[];
  /** The beginning of the worker's id, in the database and in logs; random characters follow. Default: host and process id. */
  name?: string;
  /** Log the start and the end of each attempt at level `info`. Default false: at level `debug`. */
  logAttempts?: boolean;
  /** Look for work at least this often. Default 7.5 s while wakes arrive, 1 s otherwise. */
  poll?: Duration;
  /** Look for expired leases at least this often. Default a third of the lease, at most 7.5 s. */
  rescueEvery?: Duration;
  /**
   * How long a prefetched job may wait for a slot before it is released to other workers. `false`: claim only into free slots.
   * Default 1 s.
   */
  prefetch?: Duration | false;
  /**
   * Sleep after so long without work: send no statement at all until a wake arrives, a scheduled job is due, `worker.wake()` is
   * called, or 15 minutes have passed. For databases that suspend when idle. Default: never.
   */
  sleep?: Duration;
  /** How long `stop` lets running attempts finish. Default 20 s. */
  drain?: Duration;
  /** How long handlers then have to react to their signal. Default 5 s. */
  abort?: Duration;
  /** Stop on SIGTERM and SIGINT. Default true. */
  signals?: boolean;
  /** How long finished jobs are kept. Default 7 days; the dead 90 days. */
  retention?: { done?: Duration; dead?: Duration };
};

/** The last `slots` free slots of a pool take only jobs of this priority or a smaller one. */
export type PoolReserve = { readonly slots: number; readonly priority: number };

/** `queues` holds names and patterns. */
export type PoolOptions = {
  readonly name: string;
  readonly queues: readonly string[];
  readonly slots: number;
  readonly reserve?: PoolReserve;
};

/** Of one pool. */
export const mostSlots = 10_000;
/** The most queues and patterns of one worker. Each name costs memory here and in the database; a pattern costs the same for any number of queues. */
const mostQueues = 20_000;
const mostPatterns = 100;

/** The schedules of one owner. */
export type DeclaredSchedules = {
  readonly owner: string;
  readonly definitions: readonly ScheduleDefinition[];
};

export type ResolvedWorkerOptions = {
  readonly pools: readonly PoolOptions[];
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly schedules: DeclaredSchedules | undefined;
  readonly middlewares: readonly AnyMiddleware[];
  readonly name: string | undefined;
  readonly logAttempts: boolean;
  readonly attempts: number;
  readonly backoff: ResolvedBackoff;
  readonly timeoutMs: number;
  readonly leaseMs: number;
  readonly maxTimeoutMs: number | undefined;
  readonly stallAfterMs: number | undefined;
  readonly maxCrashes: number;
  readonly pollMs: number | undefined;
  readonly rescueEveryMs: number;
  /** 0: nothing is prefetched. */
  readonly prefetchMs: number;
  readonly sleepMs: number | undefined;
  readonly drainMs: number;
  readonly abortMs: number;
  readonly signals: boolean;
  readonly keepDoneMs: number;
  readonly keepDeadMs: number;
};

const keys = [
  "pools",
  "handlers",
  "schedules",
  "owner",
  "middlewares",
  "name",
  "logAttempts",
  "attempts",
  "backoff",
  "timeout",
  "maxTimeout",
  "stallAfter",
  "lease",
  "maxCrashes",
  "poll",
  "rescueEvery",
  "prefetch",
  "sleep",
  "drain",
  "abort",
  "signals",
  "retention",
] as const satisfies (keyof WorkerOptions)[];

/** Fill in defaults, refuse invalid options, freeze the rest. The only place worker options are checked. */
export function resolveWorkerOptions(input: WorkerOptions): ResolvedWorkerOptions {
  refuseUnknownKeys("worker", input, keys);
  const retention = input.retention ?? {};
  refuseUnknownKeys("worker.retention", retention, ["done", "dead"]);
  for (const [index, middleware] of (input.middlewares ?? []).entries()) {
    requireFunction(`worker.middlewares[${index}]`, middleware);
  }
  const pools = resolvePools(input.pools);
  const leaseMs = toMs(input.lease ?? "30s", "worker.lease", leaseLimits);
  return Object.freeze({
    pools,
    handlers: resolveHandlers(input.handlers, pools),
    schedules: resolveSchedules(input),
    middlewares: Object.freeze([...(input.middlewares ?? [])]),
    logAttempts: requireBoolean("worker.logAttempts", input.logAttempts ?? false),
    name: input.name === undefined ? undefined : checkText(input.name, "worker.name", { max: 128 }),
    attempts: requireInteger("worker.attempts", input.attempts ?? 5, { min: 1, max: 1000 }),
    backoff: input.backoff === undefined ? defaultBackoff : resolveBackoff(input.backoff, "worker.backoff"),
    timeoutMs: toMs(input.timeout ?? "1h", "worker.timeout", { min: 1 }),
    leaseMs,
    maxTimeoutMs:
      input.maxTimeout === undefined ? undefined : toMs(input.maxTimeout, "worker.maxTimeout", { min: 1 }),
    stallAfterMs:
      input.stallAfter === undefined ? undefined : toMs(input.stallAfter, "worker.stallAfter", { min: 100 }),
    maxCrashes: requireInteger("worker.maxCrashes", input.maxCrashes ?? 3, { min: 1, max: 100 }),
    pollMs: input.poll === undefined ? undefined : toMs(input.poll, "worker.poll", { min: 10 }),
    rescueEveryMs: toMs(input.rescueEvery ?? Math.min(7_500, leaseMs / 3), "worker.rescueEvery", {
      min: 100,
    }),
    prefetchMs: input.prefetch === false ? 0 : toMs(input.prefetch ?? "1s", "worker.prefetch", { min: 100 }),
    sleepMs: input.sleep === undefined ? undefined : toMs(input.sleep, "worker.sleep", { min: 100 }),
    drainMs: toMs(input.drain ?? "20s", "worker.drain"),
    abortMs: toMs(input.abort ?? "5s", "worker.abort"),
    signals: requireBoolean("worker.signals", input.signals ?? true),
    keepDoneMs: toMs(retention.done ?? "7d", "worker.retention.done"),
    keepDeadMs: toMs(retention.dead ?? "90d", "worker.retention.dead"),
  });
}

function resolveSchedules({ schedules, owner }: WorkerOptions): DeclaredSchedules | undefined {
  if (schedules === undefined && owner === undefined) return undefined;
  const given: unknown = schedules;
  if (!Array.isArray(given))
    throw new InvalidOptionError(
      "worker.schedules",
      `must be an array of schedules made by defineSchedule, got ${describe(given)}`,
    );
  if (owner === undefined)
    throw new InvalidOptionError(
      "worker.owner",
      'is required with schedules: name this service, as in owner: "billing", so that no other service removes them',
    );
  const names = new Set<string>();
  for (const [index, value] of given.entries()) {
    const { name, timing } = (value ?? {}) as Partial<ScheduleDefinition>;
    if (typeof name !== "string" || typeof timing !== "object")
      throw new InvalidOptionError(
        `worker.schedules[${index}]`,
        `must be made by defineSchedule, got ${describe(value)}`,
      );
    if (names.has(name)) throw new InvalidOptionError("worker.schedules", `has schedule "${name}" twice`);
    names.add(name);
  }
  return { owner: checkName(owner, "worker.owner"), definitions: given as ScheduleDefinition[] };
}

function resolvePools(input: WorkerOptions["pools"]): readonly PoolOptions[] {
  const seen = new Set<string>();
  const pools = Object.entries(input ?? {}).map(([name, pool]): PoolOptions => {
    const option = `worker.pools.${name}`;
    checkNameOrPattern(name, option);
    const { queues, slots, reserve } = queuesAndSlots(option, name, pool);
    for (const queue of queues) {
      checkNameOrPattern(queue, `${option}.queues`);
      if (seen.has(queue)) {
        const what = isPattern(queue) ? "pattern" : "queue";
        throw new InvalidOptionError(option, `serves ${what} "${queue}", which another pool serves already`);
      }
      seen.add(queue);
    }
    return Object.freeze({
      name,
      queues: Object.freeze([...queues]),
      slots: requireInteger(option, slots, { min: 1, max: mostSlots }),
      ...(reserve === undefined ? {} : { reserve: resolveReserve(option, slots, reserve) }),
    });
  });
  if (seen.size === 0)
    throw new InvalidOptionError("worker.pools", "must name at least one queue, as in { default: 10 }");
  refuseTooMany([...seen]);
  return Object.freeze(pools);
}

function queuesAndSlots(
  option: string,
  name: string,
  pool: WorkerOptions["pools"][string],
): { queues: readonly string[]; slots: number; reserve?: PoolReserve | undefined } {
  if (typeof pool !== "object" || pool === null) return { queues: [name], slots: pool };
  refuseUnknownKeys(option, pool, ["queues", "slots", "reserve"]);
  const queues: unknown = pool.queues ?? [name];
  if (Array.isArray(queues) && queues.length > 0) return { ...pool, queues: queues as string[] };
  throw new InvalidOptionError(
    `${option}.queues`,
    `must be an array of at least one queue or pattern, got ${describe(queues)}`,
  );
}

function resolveReserve(option: string, slots: number, reserve: PoolReserve): PoolReserve {
  const what = `${option}.reserve`;
  refuseUnknownKeys(what, reserve, ["slots", "priority"]);
  if (slots < 2)
    throw new InvalidOptionError(what, "needs a pool of at least 2 slots, because others need one, too");
  return Object.freeze({
    // Without a slot for the others, their jobs would never start.
    slots: requireInteger(`${what}.slots`, reserve.slots, { min: 1, max: slots - 1 }),
    priority: requireInteger(`${what}.priority`, reserve.priority, { min: -32_768, max: 32_767 }),
  });
}

function refuseTooMany(queues: readonly string[]): void {
  const patterns = queues.filter(isPattern).length;
  if (patterns > mostPatterns)
    throw new InvalidOptionError(
      "worker.pools",
      `must have at most ${mostPatterns} patterns, got ${patterns}`,
    );
  if (queues.length - patterns > mostQueues) {
    throw new InvalidOptionError(
      "worker.pools",
      `must list at most ${formatCount(mostQueues)} queues, got ${queues.length - patterns}; use a pattern such as "tenant-*"`,
    );
  }
}

function resolveHandlers(
  input: readonly Handler[],
  pools: readonly PoolOptions[],
): ReadonlyMap<string, Handler> {
  const served = new QueueMap(
    pools.flatMap(({ queues, slots }) => queues.map((queue) => [queue, slots] as const)),
  );
  const handlers = new Map<string, Handler>();
  const given: unknown = input ?? [];
  if (!Array.isArray(given))
    throw new InvalidOptionError("worker.handlers", `must be an array of handlers, got ${describe(given)}`);
  for (const [index, value] of given.entries()) {
    const handler = requireHandler(`worker.handlers[${index}]`, value);
    const { kind, queue } = handler.definition;
    if (handlers.has(kind))
      throw new InvalidOptionError("worker.handlers", `has two handlers for kind "${kind}"`);
    // Otherwise its jobs would wait in a queue that this worker never claims from.
    if (!served.has(queue)) {
      throw new InvalidOptionError(
        "worker.pools",
        `must serve queue "${queue}", where jobs of kind "${kind}" wait`,
      );
    }
    handlers.set(kind, handler.batch === undefined ? handler : collecting(handler, served.get(queue) ?? 0));
  }
  if (handlers.size === 0)
    throw new InvalidOptionError(
      "worker.handlers",
      "must have at least one handler, made by handle(job, fn)",
    );
  return handlers;
}

/** Each worker gathers its own batches: the jobs of one may be of another database. */
function collecting(handler: Handler, slots: number): Handler {
  const { definition, batch, run } = handler;
  if (batch === undefined) return handler;
  if (batch.size > slots)
    throw new InvalidOptionError(
      "worker.pools",
      `must have at least ${batch.size} slots for queue "${definition.queue}", because each job of a batch of "${definition.kind}" takes one; it has ${slots}`,
    );
  const collector = new BatchCollector(batch, run as never);
  return {
    ...handler,
    run: (context: HandlerContext) => collector.add(context),
    isGathering: (id) => collector.isGathering(id),
  };
}

function requireHandler(option: string, value: unknown): Handler {
  const { definition, run, policy } = (value ?? {}) as Partial<Handler>;
  if (typeof definition?.kind === "string" && typeof run === "function" && typeof policy === "object")
    return value as Handler;
  throw new InvalidOptionError(option, `must be made by handle(job, fn), got ${describe(value)}`);
}
