import type { MetricDefinition } from "./registry.ts";

type Match = Readonly<Record<string, string>>;

/** A metric as an expression names it. Matchers are written as they stand, as in { state: '="dead"' }. */
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

/** Of what processes count, each its own: added up. */
export function sumBy(labels: readonly string[], expression: string): string {
  return aggregate("sum", labels, expression);
}

/** Of what the database tells of all: should two places be scraped that tell it, it must not count twice. */
export function maxBy(labels: readonly string[], expression: string): string {
  return aggregate("max", labels, expression);
}

/** The value below which this share of a histogram lies. */
export function quantile(
  share: number,
  histogram: MetricDefinition,
  by: readonly string[],
  match: Match,
): string {
  const buckets = `rate(${histogram.name}_bucket${braces(histogram, match)}[$__rate_interval])`;
  return `histogram_quantile(${share}, ${sumBy([...by, "le"], buckets)})`;
}

/** The mean of what a histogram counted. */
export function mean(histogram: MetricDefinition, by: readonly string[], match: Match): string {
  const added = (series: "sum" | "count"): string =>
    sumBy(by, `rate(${histogram.name}_${series}${braces(histogram, match)}[$__rate_interval])`);
  return `${added("sum")} / ${added("count")}`;
}

/** What Prometheus adds to every series it scrapes. Without them, two installations would be added up, or hide one another. */
export const targetLabels = ["job", "namespace"] as const;

/** Labels that series of two metrics have in common, to match them by. */
export function on(labels: readonly string[]): string {
  return `on (${[...targetLabels, ...labels].join(", ")})`;
}

function aggregate(operator: string, labels: readonly string[], expression: string): string {
  return `${operator} by (${[...targetLabels, ...labels].join(", ")}) (${expression})`;
}

function braces(metric: MetricDefinition, match: Match): string {
  const matchers = Object.entries(match).map(([label, value]) => {
    // A matcher on a label that is not there matches nothing, and an alert on it never rings.
    if (!metric.labels.includes(label)) throw new Error(`metric ${metric.name} has no label ${label}`);
    return `${label}${value}`;
  });
  return matchers.length === 0 ? "" : `{${matchers.join(",")}}`;
}
