import type { MetricDefinition } from "./registry.ts";

export type Labels = Readonly<Record<string, string>>;

export type Sample = { readonly labels: Labels; readonly value: number };

/** `counts` has one entry for each bound and one for all beyond; not cumulative. */
export type HistogramSample = {
  readonly labels: Labels;
  readonly counts: readonly number[];
  readonly sum: number;
};

/** What a metric says at one moment. */
export type MetricSamples =
  | { readonly metric: MetricDefinition; readonly samples: readonly Sample[] }
  | { readonly metric: MetricDefinition; readonly histograms: readonly HistogramSample[] };

/** Pairs of queue and kind that are told apart. Each is a time series in somebody's memory, times the states and buckets. */
export const mostPairs = 200;
export const other = "other";

/** The pairs that have been told apart, for whoever goes on with the same ones at the next reading. */
export type Pairs = Set<string>;

/**
 * The same reading with every label set at most once, and those beyond the limit folded into `other`.
 * @param pairs Of a counter: one that was told apart and is now in `other`, or the other way round, would seem to have begun anew.
 */
export function bounded(reading: MetricSamples, pairs: Pairs = new Set()): MetricSamples {
  const { metric } = reading;
  if ("histograms" in reading) return { metric, histograms: fold(reading.histograms, addHistograms, pairs) };
  const add = metric.fold === "max" ? larger : sum;
  return { metric, samples: fold(reading.samples, add, pairs) };
}

function fold<One extends { labels: Labels }>(
  samples: readonly One[],
  add: (a: One, b: One) => One,
  pairs: Pairs,
): One[] {
  const folded = new Map<string, One>();
  for (const sample of samples) {
    const own = isWithin(sample.labels, pairs) ? sample : { ...sample, labels: asOther(sample.labels) };
    // No name can hold a NUL.
    const key = Object.values(own.labels).join("\0");
    const before = folded.get(key);
    folded.set(key, before === undefined ? own : add(before, own));
  }
  return [...folded.values()];
}

/** Whether its queue and kind are among the first, which are told apart. */
function isWithin({ queue, kind }: Labels, pairs: Pairs): boolean {
  if (queue === undefined && kind === undefined) return true;
  const pair = `${queue}\0${kind}`;
  if (!pairs.has(pair) && pairs.size < mostPairs) pairs.add(pair);
  return pairs.has(pair);
}

function asOther(labels: Labels): Labels {
  return Object.fromEntries(
    Object.entries(labels).map(([label, value]) => [
      label,
      label === "queue" || label === "kind" ? other : value,
    ]),
  );
}

function sum(a: Sample, b: Sample): Sample {
  return { labels: a.labels, value: a.value + b.value };
}

function larger(a: Sample, b: Sample): Sample {
  return { labels: a.labels, value: Math.max(a.value, b.value) };
}

function addHistograms(a: HistogramSample, b: HistogramSample): HistogramSample {
  const counts = a.counts.map((count, index) => count + (b.counts[index] ?? 0));
  return { labels: a.labels, counts, sum: a.sum + b.sum };
}
