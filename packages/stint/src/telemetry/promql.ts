import type { MetricDefinition } from "./registry.ts";

type Match = Readonly<Record<string, string>>;

/** A metric with label matchers, which are written with their operator: { state: '="dead"' }. */
export function select(metric: MetricDefinition, match: Match = {}): string {
  return `${metric.name}${braces(metric, match)}`;
}

/** Per second, over the given time. */
export function rate(metric: MetricDefinition, match: Match = {}, over = "$__rate_interval"): string {
  return `rate(${select(metric, match)}[${over}])`;
}

export function increase(metric: MetricDefinition, over: string): string {
  return `increase(${select(metric)}[${over}])`;
}

/** For process metrics: each process counts its own, so they are added up. */
export function sumBy(labels: readonly string[], expression: string): string {
  return aggregate("sum", labels, expression);
}

/** For database metrics: each source reports the whole installation, so two sources must not be added up. */
export function maxBy(labels: readonly string[], expression: string): string {
  return aggregate("max", labels, expression);
}

/** The value below which this share of a histogram's values lie. */
export function quantile(
  share: number,
  histogram: MetricDefinition,
  by: readonly string[],
  match: Match,
): string {
  const buckets = `rate(${histogram.name}_bucket${braces(histogram, match)}[$__rate_interval])`;
  return `histogram_quantile(${share}, ${sumBy([...by, "le"], buckets)})`;
}

/** The mean of a histogram's values. */
export function mean(histogram: MetricDefinition, by: readonly string[], match: Match): string {
  const added = (series: "sum" | "count"): string =>
    sumBy(by, `rate(${histogram.name}_${series}${braces(histogram, match)}[$__rate_interval])`);
  return `${added("sum")} / ${added("count")}`;
}

/** Labels that Prometheus adds to every series. Without them, two installations would be added up or hide each other. */
const targetLabels = ["job", "namespace"] as const;

/** The labels by which series of two metrics are matched. */
export function on(labels: readonly string[]): string {
  return `on (${[...targetLabels, ...labels].join(", ")})`;
}

function aggregate(operator: string, labels: readonly string[], expression: string): string {
  return `${operator} by (${[...targetLabels, ...labels].join(", ")}) (${expression})`;
}

function braces(metric: MetricDefinition, match: Match): string {
  const matchers = Object.entries(match).map(([label, value]) => {
    // A matcher on a missing label matches nothing, so its alert would never fire.
    if (!metric.labels.includes(label)) throw new Error(`metric ${metric.name} has no label ${label}`);
    return `${label}${value}`;
  });
  return matchers.length === 0 ? "" : `{${matchers.join(",")}}`;
}
