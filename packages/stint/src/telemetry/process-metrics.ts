import { counterNames, type Counter } from "../model/counters.ts";
import { version } from "../version.ts";
import type { Histogram } from "./histogram.ts";
import type { KindMeter, Meter } from "./meter.ts";
import { renderSamples } from "./prometheus.ts";
import type { HistogramSample, Labels, MetricSamples, Sample } from "./metric-samples.ts";
import { counterMetrics, processMetrics as metric, type MetricDefinition } from "./registry.ts";

/** The current state of one pool of a worker. */
export type PoolView = {
  readonly pool: string;
  readonly slots: number;
  /** Slots that run a handler. */
  readonly busy: number;
  /** Claimed jobs that wait for a slot. */
  readonly waiting: number;
};

/** What metrics read from a worker. */
export type Metered = {
  readonly meter: Meter;
  readonly pools: readonly PoolView[];
  readonly state: string;
};

/** The metrics of this process alone. Prometheus scrapes every process and adds them up. */
export function renderProcessMetrics(workers: readonly Metered[]): string {
  return renderSamples(processSamples(workers));
}

export function processSamples(workers: readonly Metered[]): MetricSamples[] {
  const kinds = workers.flatMap(({ meter }) => meter.kinds());
  const pools = workers.flatMap(({ pools: own }) => own);
  const count = (definition: MetricDefinition, counter: Counter): MetricSamples => ({
    metric: definition,
    samples: kinds.map((kind) => ({ labels: labelsOf(kind), value: kind[counter] })),
  });
  const spread = (definition: MetricDefinition, of: (kind: KindMeter) => Histogram): MetricSamples => ({
    metric: definition,
    histograms: kinds.map((kind) => histogramOf(labelsOf(kind), of(kind))),
  });
  return [
    ...counterNames.flatMap((counter) => {
      const definition = (counterMetrics as Partial<Record<Counter, MetricDefinition>>)[counter];
      return definition === undefined ? [] : [count(definition, counter)];
    }),
    {
      metric: metric.attemptsPerSuccess,
      histograms: kinds.map((kind) => ({
        labels: labelsOf(kind),
        counts: kind.attempts.counts,
        sum: kind.attemptsOfSucceeded,
      })),
    },
    spread(metric.wait, ({ wait }) => wait),
    spread(metric.run, ({ run }) => run),
    { metric: metric.slots, samples: pools.flatMap(slotSamples) },
    {
      metric: metric.waiting,
      samples: pools.map(({ pool, waiting }) => ({ labels: { pool }, value: waiting })),
    },
    { metric: metric.draining, samples: [{ labels: {}, value: drainingOf(workers) }] },
    { metric: metric.build, samples: [{ labels: { version, node: process.versions.node }, value: 1 }] },
  ];
}

function labelsOf({ queue, kind }: KindMeter): Labels {
  return { queue, kind };
}

function histogramOf(labels: Labels, { counts, sumMs }: Histogram): HistogramSample {
  return { labels, counts, sum: sumMs / 1_000 };
}

function slotSamples({ pool, slots, busy }: PoolView): Sample[] {
  return [
    { labels: { pool, state: "busy" }, value: busy },
    { labels: { pool, state: "free" }, value: slots - busy },
  ];
}

function drainingOf(workers: readonly Metered[]): number {
  return workers.filter(({ state }) => state === "stopping").length;
}
