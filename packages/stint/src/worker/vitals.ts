import type { PoolView } from "../telemetry/process-metrics.ts";
import type { Vitals } from "../sql/series.ts";
import type { EventLoopLag } from "./event-loop-lag.ts";

/** The load of a worker with these pools, as it reports it. */
export function vitalsOf(pools: readonly PoolView[], lag: EventLoopLag): Vitals {
  const sum = (of: (pool: PoolView) => number): number => pools.reduce((total, pool) => total + of(pool), 0);
  return {
    busy: sum(({ busy }) => busy),
    slots: sum(({ slots }) => slots),
    waiting: sum(({ waiting }) => waiting),
    lagMs: lag.takeLagMs(),
    rssBytes: process.memoryUsage.rss(),
    loop: lag.takeBusyShare(),
  };
}
