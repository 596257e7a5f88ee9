import {
  depthStates,
  type Depth,
  type Health,
  type Inspector,
  type QueueHealth,
  type Stats,
} from "../inspect/types.ts";
import type { Capacity } from "../inspect/capacity.ts";
import type { WorkerStop } from "../sql/workers.ts";
import { renderSamples } from "./prometheus.ts";
import type { Pairs, MetricSamples, Sample } from "./metric-samples.ts";
import { databaseMetrics as metric, type MetricDefinition } from "./registry.ts";

/**
 * The metrics of the whole installation in the Prometheus text format. Serve them from one process only: with several, a sum over them
 * multiplies the depth. Pass the same inspector each time: beyond the limit of label pairs, counters then keep the pairs they started with.
 */
export async function renderMetrics(
  inspector: Pick<Inspector, "health" | "stats"> & Partial<Pick<Inspector, "capacity" | "stops">>,
): Promise<string> {
  const [health, stats, capacity, stops = []] = await Promise.all([
    inspector.health(),
    inspector.stats(),
    inspector.capacity?.(),
    inspector.stops?.(),
  ]);
  const pairs = enqueuedPairs.get(inspector) ?? new Set();
  enqueuedPairs.set(inspector, pairs);
  return renderSamples(
    [...databaseSamples(health, stats, capacity), ...stopSamples(stops, health.at)],
    new Map([[metric.enqueued, pairs]]),
  );
}
// Pairs arrive sorted by name. Without memory, a new name would push the last pair into `other`, and both counters would jump.
const enqueuedPairs = new WeakMap<object, Pairs>();

function databaseSamples(health: Health, stats: Stats, capacity: Capacity | undefined): MetricSamples[] {
  const { queues } = health;
  const seconds = (
    definition: MetricDefinition,
    of: (queue: QueueHealth) => number | null,
  ): MetricSamples => ({
    metric: definition,
    samples: queues.flatMap((queue) => inSeconds({ queue: queue.queue }, of(queue))),
  });
  return [
    {
      metric: metric.enqueued,
      samples: stats.arrivals.map(({ queue, kind, count }) => ({ labels: { queue, kind }, value: count })),
    },
    { metric: metric.jobs, samples: depths(stats) },
    seconds(metric.oldestReady, ({ oldestReadyMs }) => oldestReadyMs ?? 0),
    seconds(metric.target, ({ targetMs }) => targetMs),
    {
      metric: metric.queuePaused,
      samples: queues.map(({ queue, paused }) => ({ labels: { queue }, value: paused === null ? 0 : 1 })),
    },
    seconds(metric.oldestDead, ({ oldestDeadMs }) => oldestDeadMs ?? 0),
    seconds(metric.queueDrain, ({ drainMs }) => drainMs),
    {
      metric: metric.retries,
      samples: queues.flatMap(({ queue, retryShare }) =>
        retryShare === null ? [] : [{ labels: { queue }, value: retryShare }],
      ),
    },
    { metric: metric.queueSlots, samples: queues.flatMap(slotSamples) },
    {
      metric: metric.queueWorkers,
      samples: queues.map(({ queue, workers }) => ({ labels: { queue }, value: workers })),
    },
    {
      metric: metric.workersRecommended,
      samples: (capacity?.pools ?? []).map(({ pool, recommended }) => ({
        labels: { queue: pool },
        value: recommended,
      })),
    },
    { metric: metric.workers, samples: [{ labels: {}, value: health.workers }] },
    { metric: metric.slow, samples: [{ labels: {}, value: health.slow }] },
    {
      metric: metric.unserved,
      samples: health.unserved.flatMap(({ queue, kind, oldestReadyMs }) =>
        inSeconds({ queue, kind }, oldestReadyMs),
      ),
    },
  ];
}

const hourMs = 3_600_000;

/** Gauges and no histogram: a process that has stopped is not scraped any more. */
function stopSamples(stops: readonly WorkerStop[], at: Date): MetricSamples[] {
  const recent = stops.filter(({ stoppedAt }) => at.getTime() - stoppedAt.getTime() <= hourMs);
  const longestMs = recent.length === 0 ? null : Math.max(...recent.map(({ ms }) => ms));
  return [
    { metric: metric.stops, samples: [{ labels: {}, value: recent.length }] },
    { metric: metric.workerDrain, samples: inSeconds({}, longestMs) },
  ];
}

/** The largest first, so that `other` takes the smallest. */
function depths({ byKind }: Stats): Sample[] {
  const size = (depth: Depth): number => depthStates.reduce((total, state) => total + depth[state], 0);
  return byKind
    .toSorted((a, b) => size(b.depth) - size(a.depth))
    .flatMap(({ queue, kind, depth }) =>
      depthStates.map((state) => ({ labels: { queue, kind, state }, value: depth[state] })),
    );
}

function slotSamples({ queue, slots: { busy, total } }: QueueHealth): Sample[] {
  return [
    { labels: { queue, state: "busy" }, value: busy },
    { labels: { queue, state: "free" }, value: Math.max(0, total - busy) },
  ];
}

function inSeconds(labels: Sample["labels"], ms: number | null): Sample[] {
  return ms === null ? [] : [{ labels, value: ms / 1_000 }];
}
