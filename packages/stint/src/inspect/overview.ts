import type { PgDb } from "../db/pg.ts";
import { fairOf, weightOf } from "../model/fairness.ts";
import { checkName } from "../model/names.ts";
import { requireInteger, requireOneOf } from "../model/options.ts";
import { isUnresponsive } from "../model/liveness.ts";
import { arrivals } from "../sql/arrivals.ts";
import { depths } from "../sql/depth.ts";
import { queueSettings } from "../sql/queue-settings.ts";
import { recent, recentRuns, topTenants } from "../sql/series.ts";
import { runningJobs } from "../sql/slow.ts";
import { tenants } from "../sql/tenants.ts";
import { waitingTenants } from "../sql/waiting-tenants.ts";
import { latestStops, watchWorkers, type WatchedWorker } from "../sql/workers.ts";
import { controls, keysInUse } from "./controls.ts";
import { depthBy, sumDepth, sumSeries, toPoint, toRates } from "./figures.ts";
import { capacity } from "./capacity.ts";
import { health } from "./health.ts";
import { kinds, secondsOf } from "./kinds.ts";
import { series } from "./series.ts";
import { toSlowJobs } from "./slow.ts";
import { seriesRanges, type Inspector, type QueueTenants, type Stats, type WorkerView } from "./types.ts";

export type OverviewInspector = Pick<
  Inspector,
  | "health"
  | "stats"
  | "capacity"
  | "series"
  | "kinds"
  | "tenants"
  | "waitingTenants"
  | "workers"
  | "stops"
  | "slow"
  | "controls"
  | "limitKeys"
>;

const hourMs = 3_600_000;
/** Ready jobs examined for their tenants, and tenants returned. */
const mostReady = 10_000;
const mostTenants = 20;

const mostStops = 100;

/** Depth, age and rates of queues, kinds and workers. */
export function inspectOverview(db: PgDb): OverviewInspector {
  return {
    health: async () => await health(db),
    stats: async () => await stats(db),
    capacity: async (options) => await capacity(db, options),
    series: async ({ queue, kind, range = "1h" }) =>
      await series(db, {
        queue: queue ?? null,
        kind: kind ?? null,
        range: requireOneOf("series.range", range, seriesRanges),
      }),
    kinds: async () => await kinds(db),
    tenants: async (queue, { limit = 1_000 } = {}) => await queueTenants(db, queue, limit),
    waitingTenants: async ({ queue } = {}) => {
      const [{ tenants, lookedAt, all }, settings] = await Promise.all([
        waitingTenants(db, { most: mostReady, tenants: mostTenants, queue: queue ?? null }),
        queue === undefined ? [] : queueSettings(db),
      ]);
      return {
        tenants,
        of: { count: lookedAt, capped: !all },
        ...(queue === undefined ? {} : { fair: fairOf(settings, queue) !== false }),
      };
    },
    workers: async () => await workers(db),
    stops: async () => await latestStops(db, mostStops),
    controls: async () => await controls(db),
    limitKeys: async (options) => await keysInUse(db, options),
    slow: async () => {
      const [running, runs] = await Promise.all([runningJobs(db), recentRuns(db)]);
      return toSlowJobs(running, runs);
    },
  };
}

async function queueTenants(db: PgDb, queue: string, limit: number): Promise<QueueTenants> {
  const name = checkName(queue, "tenants(queue)");
  const most = requireInteger("tenants.limit", limit, { min: 1, max: 100_000 });
  const [depths, settings] = await Promise.all([tenants(db, name, most), queueSettings(db)]);
  const fair = fairOf(settings, name);
  return {
    queue: name,
    fair: fair !== false,
    tenants: depths.map(({ tenant, ready, running, oldestReadyMs }) => ({
      tenant,
      weight: fair === false ? 1 : weightOf(fair.weights, tenant),
      ready,
      running,
      oldestReadyMs,
    })),
  };
}

async function stats(db: PgDb): Promise<Stats> {
  const [depth, minute, hour, tenants, arrived] = await Promise.all([
    depths(db),
    recent(db, 10, 60_000),
    recent(db, 60, hourMs),
    topTenants(db),
    arrivals(db),
  ]);
  return {
    at: new Date(),
    total: sumDepth(depth),
    rates: toRates(sumSeries(minute), secondsOf(minute)),
    lastHour: toPoint(sumSeries(hour)),
    byQueue: depthBy(depth, ({ queue }) => ({ queue })).sort((a, b) => compare(a.queue, b.queue)),
    byKind: depthBy(depth, ({ kind, queue }) => ({ kind, queue })).sort(
      (a, b) => compare(a.queue, b.queue) || compare(a.kind, b.kind),
    ),
    byPriority: depthBy(depth, ({ queue, priority }) => ({ queue, priority })).sort(
      (a, b) => compare(a.queue, b.queue) || a.priority - b.priority,
    ),
    arrivals: arrived,
    topTenants: tenants,
  };
}

async function workers(db: PgDb): Promise<WorkerView[]> {
  const all = await watchWorkers(db);
  const newest = all
    .filter((worker) => !isUnresponsive(worker))
    .map(({ version }) => version)
    .reduce((highest, version) => (isBehind(highest, version) ? version : highest), "0");
  return all.map((worker) => toView(worker, newest));
}

function toView({ vitals, ...worker }: WatchedWorker, newest: string): WorkerView {
  const { pools, version } = worker;
  return {
    ...worker,
    busy: vitals?.busy ?? 0,
    slots: vitals?.slots ?? Object.values(pools).reduce((sum, slots) => sum + slots, 0),
    waiting: vitals?.waiting ?? 0,
    lagMs: vitals?.lagMs ?? null,
    rssBytes: vitals?.rssBytes ?? null,
    unresponsive: isUnresponsive(worker),
    behind: isBehind(version, newest),
  };
}

/** Whether a version is lower than another, compared part by part. */
function isBehind(version: string, other: string): boolean {
  const parts = (text: string): number[] => text.split(/[^0-9]+/).map(Number);
  const [own, newer] = [parts(version), parts(other)];
  for (let n = 0; n < Math.max(own.length, newer.length); n++) {
    const difference = (own[n] ?? 0) - (newer[n] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
