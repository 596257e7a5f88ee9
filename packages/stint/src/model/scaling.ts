import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { formatCount, formatMs } from "./figures.ts";
import { refuseUnknownKeys, requireInteger } from "./options.ts";

/** Workers to add while more than `depthAbove` jobs are ready. They stay until fewer than `depthBelow` are. */
export type ScalingRule = {
  readonly depthAbove: number;
  readonly depthBelow: number;
  readonly add: number;
};

/** Bounds of a recommendation, and rules beyond the estimate. */
export type ScalingOptions = {
  /** At least so many workers. Default 1: only a worker makes scheduled jobs ready and rescues the jobs of a dead worker. */
  min?: number;
  /** At most so many workers. Default: any number. */
  max?: number;
  rules?: readonly ScalingRule[];
};

export type ResolvedScaling = {
  readonly min: number;
  readonly max: number;
  readonly rules: readonly ScalingRule[];
};

/** More workers than any installation has. */
const mostWorkers = 1_000_000;
const mostRules = 20;

/**
 * Check bounds and rules.
 *
 * @throws {InvalidOptionError} A value cannot work.
 */
export function resolveScaling(what: string, { min = 1, max, rules = [] }: ScalingOptions): ResolvedScaling {
  const least = requireInteger(`${what}.min`, min, { min: 0, max: mostWorkers });
  const most =
    max === undefined ? mostWorkers : requireInteger(`${what}.max`, max, { min: 1, max: mostWorkers });
  if (most < least)
    throw new InvalidOptionError(`${what}.max`, `must be at least min (${least}), got ${most}`);
  if (!Array.isArray(rules) || rules.length > mostRules)
    throw new InvalidOptionError(
      `${what}.rules`,
      `must be a list of at most ${mostRules} rules, got ${describe(rules)}`,
    );
  return { min: least, max: most, rules: rules.map((rule, n) => resolveRule(`${what}.rules[${n}]`, rule)) };
}

/**
 * Check one rule.
 *
 * @throws {InvalidOptionError} A value cannot work.
 */
export function resolveRule(what: string, rule: unknown): ScalingRule {
  if (typeof rule !== "object" || rule === null)
    throw new InvalidOptionError(what, `must be { depthAbove, add, depthBelow }, got ${describe(rule)}`);
  refuseUnknownKeys(what, rule, ["depthAbove", "depthBelow", "add"]);
  const { depthAbove, depthBelow, add } = rule as Record<keyof ScalingRule, number>;
  const above = requireInteger(`${what}.depthAbove`, depthAbove, { min: 1, max: Number.MAX_SAFE_INTEGER });
  const below = requireInteger(`${what}.depthBelow`, depthBelow, { min: 0, max: Number.MAX_SAFE_INTEGER });
  if (below > above)
    throw new InvalidOptionError(`${what}.depthBelow`, `must be at most depthAbove (${above}), got ${below}`);
  return {
    depthAbove: above,
    depthBelow: below,
    add: requireInteger(`${what}.add`, add, { min: 1, max: 10_000 }),
  };
}

/**
 * Workers are removed only if those that stay would be at most this busy. A load that moves around the edge of a worker then changes nothing, and
 * no state has to be kept between two recommendations.
 */
const busyAfterScaleDown = 0.8;

export type PoolDemand = {
  /** Slots that are needed, as a fraction. */
  readonly slotsNeeded: number;
  /** Slots of one worker. */
  readonly slots: number;
  /** Live workers that do not drain. */
  readonly workers: number;
  /** Ready jobs that more workers would run: neither paused nor at a full limit. */
  readonly depth: number;
};

/** Workers for the demand of a pool, without bounds. `needed`: the estimate alone. `recommended`: with hysteresis and rules. */
export function workersFor(
  { slotsNeeded, slots, workers, depth }: PoolDemand,
  rules: readonly ScalingRule[],
): { needed: number; recommended: number } {
  const atUse = (share: number): number =>
    Math.min(mostWorkers, Math.max(0, Math.ceil(slotsNeeded / slots / share - 1e-9)));
  const needed = atUse(1);
  const steady = needed > workers ? needed : Math.min(workers, atUse(busyAfterScaleDown));
  const added = rules.map(({ depthAbove, depthBelow, add }) => {
    const isActive = depth > depthAbove || (depth >= depthBelow && workers >= needed + add);
    return isActive ? needed + add : 0;
  });
  return { needed, recommended: Math.min(mostWorkers, Math.max(steady, ...added)) };
}

/** What keeps a pool from finishing its work sooner, as far as the database shows it. */
export const limitingFactors = [
  "none",
  "workers",
  "pause",
  "limit",
  "dependency",
  "database-connections",
  "lock-waits",
  "handler-cpu",
  "unknown",
] as const;
export type LimitingFactor = (typeof limitingFactors)[number];

/** `name`: of the pause, the limit or the dependency. `text`: one sentence for people. */
export type LimitedBy = {
  readonly factor: LimitingFactor;
  readonly name: string | null;
  readonly text: string;
};

export type PoolState = {
  readonly needed: number;
  readonly workers: number;
  /** Share of the slots that are busy; null: there are none. */
  readonly utilisation: number | null;
  readonly oldestReadyMs: number | null;
  readonly targetMs: number;
  /** The pause that holds back most, the full limit, and how many slots each holds back. */
  readonly pause: { readonly name: string; readonly slots: number } | null;
  readonly limit: { readonly name: string; readonly slots: number; readonly waiting: number } | null;
  /** Live workers of the pool that report how busy their event loop is, and those of them whose loop is always busy. */
  readonly loops: { readonly known: number; readonly busy: number };
  readonly database: {
    readonly connections: number;
    readonly maxConnections: number;
    readonly lockWaits: number;
  };
};

/** Beyond this share of the server's connections, new workers may fail to connect. */
const connectionsFull = 0.9;

/** Name the limiting factor from facts, or say that it is unknown. */
export function limitedBy(state: PoolState): LimitedBy {
  const { needed, workers, pause, limit, oldestReadyMs, targetMs } = state;
  const isLate = oldestReadyMs !== null && oldestReadyMs > targetMs;
  if (needed > workers) return sharedFactor(state) ?? shortOfWorkers(needed, workers);
  const held = (pause?.slots ?? 0) >= (limit?.slots ?? 0) ? [pause, limit] : [limit, pause];
  for (const factor of held) {
    if (factor === null) continue;
    return factor === limit ? atLimit(limit.name, limit.waiting) : isPaused(factor.name);
  }
  if (!isLate) return { factor: "none", name: null, text: "The workers keep up" };
  return (
    sharedFactor(state) ?? {
      factor: "unknown",
      name: null,
      text: `Unknown: the oldest ready job has waited ${formatMs(oldestReadyMs)}, its target is ${formatMs(targetMs)}, and ${usedText(state)}`,
    }
  );
}

/** Factors for which another worker of this pool does not help, or makes things worse. */
export function holdsBackScaling(factor: LimitingFactor): boolean {
  return factor === "database-connections" || factor === "lock-waits";
}

function sharedFactor({ database, loops, workers, utilisation }: PoolState): LimitedBy | undefined {
  const { connections, maxConnections, lockWaits } = database;
  if (connections >= maxConnections * connectionsFull) {
    const text = `Database connections: ${formatCount(connections)} of ${formatCount(maxConnections)} are in use, so new workers may fail to connect`;
    return { factor: "database-connections", name: null, text };
  }
  if (lockWaits >= Math.max(1, Math.ceil(workers / 4))) {
    const text = `Lock waits: ${formatCount(lockWaits)} sessions of this installation have waited over a second for a lock, and more workers would wait, too`;
    return { factor: "lock-waits", name: null, text };
  }
  if (loops.known > 0 && loops.busy * 2 >= loops.known && (utilisation ?? 0) > 0) {
    const text = `Handler CPU: the event loop of ${formatCount(loops.busy)} of ${formatCount(loops.known)} workers is always busy. More slots do not help; more processes on other cores do`;
    return { factor: "handler-cpu", name: null, text };
  }
  return undefined;
}

function shortOfWorkers(needed: number, workers: number): LimitedBy {
  const text =
    workers === 0
      ? "No worker serves this pool"
      : `${formatCount(workers)} of ${formatCount(needed)} needed workers run`;
  return { factor: "workers", name: null, text };
}

function isPaused(name: string): LimitedBy {
  return { factor: "pause", name, text: `${sentence(name)} is paused: more workers will not help` };
}

function atLimit(name: string, waiting: number): LimitedBy {
  const [scope] = name.split(":");
  const waits = waiting > 0 ? `; ${formatCount(waiting)} jobs wait for it` : "";
  if (scope === "dependency")
    return {
      factor: "dependency",
      name,
      text: `${sentence(name)} is saturated${waits}: more workers will not help`,
    };
  return { factor: "limit", name, text: `The limit ${name} is full${waits}: more workers will not help` };
}

/** `queue:mail` → `Queue mail`. */
function sentence(name: string): string {
  const [scope = "", ...rest] = name.split(":");
  return `${scope.charAt(0).toUpperCase()}${scope.slice(1)} ${rest.join(":")}`;
}

function usedText({ utilisation }: PoolState): string {
  return utilisation === null
    ? "no slots are known"
    : `${Math.round(utilisation * 100)} % of the slots are busy`;
}
