import { basename } from "node:path";
import { InvalidOptionError } from "../errors.ts";
import { closest } from "../model/names.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import type { WorkerOptions } from "../worker/options.ts";
import type { ConfigFile } from "./config-file.ts";

/** One pool of a worker and the kinds that run in it. */
export type ServedPool = {
  readonly pool: string;
  readonly queues: readonly string[];
  readonly slots: number;
  readonly kinds: readonly string[];
};

export function requireWorker(config: ConfigFile): WorkerOptions {
  if (config.worker !== undefined) return config.worker;
  throw new InvalidOptionError(
    `${basename(config.path)}.worker`,
    "is needed to run a worker, as in { pools: { default: 10 }, handlers: [ … ] }",
  );
}

/** The worker with only the named pools, and only the handlers whose jobs wait in their queues. */
export function selectPools(worker: WorkerOptions, names: readonly string[] | undefined): WorkerOptions {
  if (names === undefined) return worker;
  for (const name of names) refuseUnknownPool(worker, name);
  const pools = Object.fromEntries(Object.entries(worker.pools).filter(([name]) => names.includes(name)));
  const poolOf = poolsByQueue(pools);
  const handlers = worker.handlers.filter((handler) => poolOf.has(handler.definition.queue));
  if (handlers.length === 0) {
    throw new InvalidOptionError(
      "--pool",
      `${names.join(", ")}: no handler of the config has its jobs there`,
    );
  }
  return { ...worker, pools, handlers };
}

function refuseUnknownPool({ pools }: WorkerOptions, name: string): void {
  const known = Object.keys(pools ?? {});
  if (known.includes(name)) return;
  const suggestion = closest(name, known);
  throw new InvalidOptionError(
    "--pool",
    suggestion === undefined
      ? `must name pools of the config (${known.join(", ")}), got "${name}"`
      : `"${name}" is no pool of the config; did you mean "${suggestion}"?`,
  );
}

/** What a worker will process. Its options must have been checked. */
export function served({ pools, handlers }: WorkerOptions): ServedPool[] {
  const poolOf = poolsByQueue(pools);
  return Object.entries(pools).map(([pool, value]) => {
    const here = handlers.filter((handler) => poolOf.get(handler.definition.queue) === pool);
    const slots = typeof value === "number" ? value : value.slots;
    return {
      pool,
      queues: queuesOf(pool, value),
      slots,
      kinds: here.map(({ definition }) => definition.kind),
    };
  });
}

/** The pool that serves each queue. */
function poolsByQueue(pools: WorkerOptions["pools"]): QueueMap<string> {
  return new QueueMap(
    Object.entries(pools).flatMap(([pool, value]) =>
      queuesOf(pool, value).map((queue) => [queue, pool] as const),
    ),
  );
}

function queuesOf(pool: string, value: WorkerOptions["pools"][string]): readonly string[] {
  return typeof value === "number" ? [pool] : (value.queues ?? [pool]);
}

/** The same in one line for people. */
export function servedText(pools: readonly ServedPool[]): string {
  return pools
    .map(
      ({ pool, slots, kinds }) =>
        `${pool} ×${slots} (${kinds.length === 0 ? "no handler" : kinds.join(", ")})`,
    )
    .join(", ");
}
