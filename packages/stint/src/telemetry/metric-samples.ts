import type { MetricDefinition } from "./registry.ts";

export type Labels = Readonly<Record<string, string>>;

export type Sample = { readonly labels: Labels; readonly value: number };

/** `counts` has one entry for each bound and one for larger values; not cumulative. */
export type HistogramSample = {
  readonly labels: Labels;
  readonly counts: readonly number[];
  readonly sum: number;
};

/** The samples of a metric at one moment. */
export type MetricSamples =
  | { readonly metric: MetricDefinition; readonly samples: readonly Sample[] }
  | { readonly metric: MetricDefinition; readonly histograms: readonly HistogramSample[] };

/** Pairs of queue and kind that are reported separately. Each is a time series in Prometheus, times its states or buckets. */
export const mostPairs = 200;
export const other = "other";

/** The pairs reported separately so far, for a caller that keeps them from scrape to scrape. */
export type Pairs = Set<string>;

/**
 * The same samples with each label set once, and pairs beyond the limit combined as `other`.
 * @param pairs For a counter: a pair that moved into or out of `other` between two scrapes would look like a counter reset.
 */
export function bounded(given: MetricSamples, pairs: Pairs = new Set()): MetricSamples {
  const { metric } = given;
  if ("histograms" in given) return { metric, histograms: fold(given.histograms, addHistograms, pairs) };
  const add = metric.fold === "max" ? larger : sum;
  return { metric, samples: fold(given.samples, add, pairs) };
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

/** Whether its queue and kind are reported separately: the first pairs are. */
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
