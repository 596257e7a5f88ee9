import type { Run } from "../db/db.ts";
import { InvalidOptionError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { describe } from "../model/describe.ts";
import { checkText } from "../model/names.ts";
import { checkNameOrPattern } from "../model/name-pattern.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import {
  holdsBackScaling,
  limitedBy,
  resolveScaling,
  workersFor,
  type LimitedBy,
  type PoolState,
  type ResolvedScaling,
  type ScalingOptions,
} from "../model/scaling.ts";
import { standing, type Standing } from "../sql/depth.ts";
import { fleet, poolLoad, type Fleet, type PoolLoadRow } from "../sql/pool-load.ts";

/** A pool as in the options of a worker: its queues, names or patterns, share the slots. */
export type CapacityPool = {
  readonly name: string;
  readonly queues: readonly string[];
  readonly slots: number;
};

export type CapacityOptions = ScalingOptions & {
  /** The pools of one worker. Left out: every queue that a live worker serves, and every unserved queue with ready jobs, by itself. */
  pools?: readonly CapacityPool[];
  /** Finish ready jobs within this time. Default: the target age of each queue. */
  target?: Duration;
};

/** The load of a pool, and how many workers it should have. */
export type PoolCapacity = {
  readonly pool: string;
  readonly queues: readonly string[];
  /** Slots of one worker; null: no live worker has slots for the queue. */
  readonly slots: number | null;
  /** Live workers that have slots for it and do not drain. */
  readonly workers: number;
  readonly ready: number;
  readonly running: number;
  /** Jobs that wait at a limit, or for tokens of a dependency. */
  readonly waiting: number;
  readonly oldestReadyMs: number | null;
  /** The shortest target age of its queues. */
  readonly targetMs: number;
  /** Jobs per second over the last ten minutes: arrivals, and attempts that ended. */
  readonly arrivedPerS: number;
  readonly ranPerS: number;
  /** Share of the slots that are busy, from 0 to 1; null: there are none. */
  readonly utilisation: number | null;
  /** Until the ready jobs have started, with the present workers and arrivals; null: not as things are. */
  readonly drainMs: number | null;
  /** Workers by the estimate alone. */
  readonly needed: number;
  /** With hysteresis, rules and the limiting factor, without `min` and `max`. */
  readonly recommended: number;
  readonly limitedBy: LimitedBy;
};

export type Capacity = {
  readonly at: Date;
  /** Live workers, and how many there should be: the most that any pool needs, within `min` and `max`. */
  readonly workers: number;
  readonly recommended: number;
  /** At most 200, those that need the most workers first. */
  readonly pools: readonly PoolCapacity[];
  readonly database: {
    readonly connections: number;
    readonly maxConnections: number;
    readonly lockWaits: number;
  };
};

const mostPools = 200;
/** An event loop that is busy for this share of the time has no room for more handlers. */
const loopFull = 0.9;
/** A target age for pools without work. */
const defaultTargetMs = 300_000;

/**
 * Load and recommended workers of pools.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export async function capacity(db: Run, options: CapacityOptions = {}): Promise<Capacity> {
  refuseUnknownKeys("capacity", options, ["pools", "target", "min", "max", "rules"]);
  const scaling = resolveScaling("capacity", options);
  const given = options.pools === undefined ? undefined : checkPools(options.pools);
  const targetMs =
    options.target === undefined ? undefined : toMs(options.target, "capacity.target", { min: 1_000 });
  const [now, depth] = await Promise.all([fleet(db), standing(db)]);
  const pools = given ?? poolsOf(now, depth);
  const load = await poolLoad(
    db,
    pools.map(({ queues, slots }) => ({ queues, slots: slots ?? 1 })),
    targetMs,
  );
  const rows = new Map<number, PoolLoadRow[]>();
  for (const row of load)
    rows
      .set(row.pool, rows.get(row.pool) ?? [])
      .get(row.pool)
      ?.push(row);
  const serving = now.workers.map((worker) => ({
    ...worker,
    map: new QueueMap(Object.entries(worker.pools)),
  }));
  const all = pools.map((pool, n) =>
    toPoolCapacity({
      pool,
      rows: rows.get(n + 1) ?? [],
      serving,
      depth,
      now,
      scaling,
      targetMs,
    }),
  );
  const most = Math.max(0, ...all.map(({ recommended }) => recommended));
  const { at, connections, maxConnections, lockWaits } = now;
  return {
    at,
    workers: now.workers.filter(({ draining }) => !draining).length,
    recommended: Math.min(scaling.max, Math.max(scaling.min, most)),
    pools: all.sort(byRecommended).slice(0, mostPools),
    database: { connections, maxConnections, lockWaits },
  };
}

type Pool = { readonly name: string; readonly queues: readonly string[]; readonly slots: number | null };

function checkPools(pools: readonly CapacityPool[]): Pool[] {
  if (!Array.isArray(pools) || pools.length === 0)
    throw new InvalidOptionError("capacity.pools", `must be a list of pools, got ${describe(pools)}`);
  return pools.map((pool, n) => {
    const what = `capacity.pools[${n}]`;
    if (typeof pool !== "object" || pool === null)
      throw new InvalidOptionError(what, `must be { name, queues, slots }, got ${describe(pool)}`);
    refuseUnknownKeys(what, pool, ["name", "queues", "slots"]);
    const { name, queues, slots } = pool;
    if (!Array.isArray(queues) || queues.length === 0)
      throw new InvalidOptionError(`${what}.queues`, `must be a list of queues, got ${describe(queues)}`);
    return {
      name: checkText(name, `${what}.name`),
      queues: queues.map((queue: string) => checkNameOrPattern(queue, `${what}.queues`)),
      slots: requireInteger(`${what}.slots`, slots, { min: 1, max: 1_000_000 }),
    };
  });
}

/** A pool for every queue that a live worker serves, and for every unserved queue with ready jobs. */
function poolsOf({ workers }: Fleet, { depth }: Standing): Pool[] {
  const slots = new Map<string, number>();
  for (const worker of workers)
    for (const [queue, own] of Object.entries(worker.pools))
      slots.set(queue, Math.max(own, slots.get(queue) ?? 0));
  const served = new QueueMap(slots);
  const unserved = new Set(
    depth.filter(({ queue, ready }) => ready > 0 && !served.has(queue)).map(({ queue }) => queue),
  );
  return [
    // `setSlots(pool, 0)` leaves a worker without slots for its queues.
    ...[...slots].map(([queue, own]) => ({ name: queue, queues: [queue], slots: own === 0 ? null : own })),
    ...[...unserved].map((queue) => ({ name: queue, queues: [queue], slots: null })),
  ];
}

type ServingWorker = Fleet["workers"][number] & { readonly map: QueueMap<number> };

function toPoolCapacity(input: {
  pool: Pool;
  rows: readonly PoolLoadRow[];
  serving: readonly ServingWorker[];
  depth: Standing;
  now: Fleet;
  scaling: ResolvedScaling;
  targetMs: number | undefined;
}): PoolCapacity {
  const { pool, rows, now, scaling } = input;
  const sum = (of: (row: PoolLoadRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
  const held = input.serving.filter(({ map }) => pool.queues.some((queue) => servesAny(map, queue, rows)));
  const active = held.filter(({ draining, map }) => !draining && slotsIn(map, pool, rows) > 0);
  const total = active.reduce((slots, { map }) => slots + slotsIn(map, pool, rows), 0);
  const [ready, running, waiting] = [
    sum((row) => row.ready),
    sum((row) => row.running),
    sum((row) => row.waiting),
  ];
  const blocked = rows.filter((row) => row.paused !== null || row.fullLimit !== null);
  const slotsNeeded = sum((row) => row.needed);
  // The slots of a worker that does not exist are unknown: one worker has to serve the queue.
  const { needed, recommended } =
    pool.slots === null
      ? { needed: slotsNeeded > 0 ? 1 : 0, recommended: slotsNeeded > 0 ? 1 : 0 }
      : workersFor(
          {
            slotsNeeded,
            slots: pool.slots,
            workers: active.length,
            depth: ready - blocked.reduce((all, row) => all + row.ready, 0),
          },
          scaling.rules,
        );
  const queues = new Set(rows.map(({ queue }) => queue));
  const ages = input.depth.ages
    .filter(({ queue }) => queues.has(queue))
    .map(({ oldestReadyMs }) => oldestReadyMs);
  const oldestReadyMs = ages.reduce((most, age) => (age === null ? most : Math.max(0, age, most ?? 0)), null);
  const targetMs =
    rows.length === 0
      ? (input.targetMs ?? defaultTargetMs)
      : 1_000 * Math.min(...rows.map((row) => row.targetS));
  const utilisation = total === 0 ? null : Math.min(1, running / total);
  const because = limitedBy({
    needed,
    workers: active.length,
    utilisation,
    oldestReadyMs,
    targetMs,
    pause: most(blocked, ({ paused }) => paused),
    limit: most(blocked, ({ paused, fullLimit }) => (paused === null ? fullLimit : null)),
    loops: loopsOf(active),
    database: now,
  });
  return {
    pool: pool.name,
    queues: pool.queues,
    slots: pool.slots,
    workers: active.length,
    ready,
    running,
    waiting,
    oldestReadyMs,
    targetMs,
    arrivedPerS: sum((row) => row.arrivedPerS),
    ranPerS: sum((row) => row.ranPerS),
    utilisation,
    drainMs: drainMs(rows, total),
    needed,
    recommended: holdsBackScaling(because.factor)
      ? Math.min(recommended, Math.max(1, active.length))
      : recommended,
    limitedBy: because,
  };
}

/** A pool may name a pattern that workers serve by names, or the other way round. */
function servesAny(map: QueueMap<number>, queue: string, rows: readonly PoolLoadRow[]): boolean {
  return map.has(queue) || map.patterns.includes(queue) || rows.some((row) => map.has(row.queue));
}

/** The queues of a pool share its slots, so the most of any is the number of them. */
function slotsIn(map: QueueMap<number>, pool: Pool, rows: readonly PoolLoadRow[]): number {
  const named = [...pool.queues, ...rows.map(({ queue }) => queue)];
  return Math.max(0, ...named.map((queue) => map.get(queue) ?? 0));
}

function loopsOf(workers: readonly ServingWorker[]): PoolState["loops"] {
  const known = workers.flatMap(({ vitals }) => (vitals?.loop === undefined ? [] : [vitals.loop]));
  return { known: known.length, busy: known.filter((loop) => loop >= loopFull).length };
}

/** The pause or limit that holds back the most slots, with the jobs that wait for it. */
function most(
  rows: readonly PoolLoadRow[],
  nameOf: (row: PoolLoadRow) => string | null,
): { name: string; slots: number; waiting: number } | null {
  const byName = new Map<string, { name: string; slots: number; waiting: number }>();
  for (const row of rows) {
    const name = nameOf(row);
    if (name === null || row.ready + row.waiting + row.running === 0) continue;
    const own = byName.get(name) ?? { name, slots: 0, waiting: 0 };
    byName.set(name, {
      name,
      slots: own.slots + row.wanted - row.needed,
      waiting: own.waiting + row.waiting,
    });
  }
  return [...byName.values()].reduce<{ name: string; slots: number; waiting: number } | null>(
    (first, own) => (first === null || own.slots > first.slots ? own : first),
    null,
  );
}

/** With all slots busy, and jobs arriving as before. Paused jobs do not start. */
function drainMs(rows: readonly PoolLoadRow[], slots: number): number | null {
  const open = rows.filter(({ paused }) => paused === null);
  if (rows.some(({ paused, ready }) => paused !== null && ready > 0)) return null;
  const work = open.reduce((seconds, row) => seconds + row.ready * row.takesS, 0);
  if (work === 0) return 0;
  const arriving = open.reduce((busy, row) => busy + row.arrivedPerS * row.takesS, 0);
  const allowed = Math.min(
    slots,
    ...(open.some(({ fullLimit }) => fullLimit !== null) ? [sumNeeded(open)] : []),
  );
  return allowed > arriving ? (1_000 * work) / (allowed - arriving) : null;
}

function sumNeeded(rows: readonly PoolLoadRow[]): number {
  return rows.reduce((sum, row) => sum + row.needed, 0);
}

function byRecommended(a: PoolCapacity, b: PoolCapacity): number {
  return b.recommended - a.recommended || b.ready - a.ready || (a.pool < b.pool ? -1 : 1);
}
