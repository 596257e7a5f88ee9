import { bounds } from "./histogram.ts";
import type { MetricDefinition } from "./registry.ts";
import {
  bounded,
  type HistogramSample,
  type Labels,
  type Pairs,
  type MetricSamples,
} from "./metric-samples.ts";

/** The text format 0.0.4, which every scraper reads. */
export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Samples in the Prometheus text format. A metric without samples is left out.
 * @param kept The pairs of queue and kind that a metric keeps reporting separately.
 */
export function renderSamples(
  all: readonly MetricSamples[],
  kept: ReadonlyMap<MetricDefinition, Pairs> = new Map(),
): string {
  return all.map((samples) => renderOne(bounded(samples, kept.get(samples.metric)))).join("");
}

function renderOne(given: MetricSamples): string {
  const { metric } = given;
  const lines =
    "histograms" in given
      ? given.histograms.flatMap((sample) => histogramLines(metric, sample))
      : given.samples.map(({ labels, value }) => line(metric.name, labels, value));
  if (lines.length === 0) return "";
  const help = metric.help.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
  return [`# HELP ${metric.name} ${help}`, `# TYPE ${metric.name} ${metric.type}`, ...lines, ""].join("\n");
}

/** The same for every histogram of durations, so they are formatted once. */
const durationEdges = [...bounds, Infinity].map(number);

function histogramLines(
  { name, bounds: own }: MetricDefinition,
  { labels, counts, sum }: HistogramSample,
): string[] {
  const edges = own === undefined ? durationEdges : [...own, Infinity].map(number);
  const pairs = pairsOf(labels);
  const open = `${name}_bucket{${pairs}${pairs === "" ? "" : ","}le="`;
  let total = 0;
  const lines = edges.map((edge, index) => {
    total += counts[index] ?? 0;
    return `${open}${edge}"} ${total}`;
  });
  lines.push(`${named(`${name}_sum`, pairs)} ${number(sum)}`, `${named(`${name}_count`, pairs)} ${total}`);
  return lines;
}

function line(name: string, labels: Labels, value: number): string {
  return `${named(name, pairsOf(labels))} ${number(value)}`;
}

function named(name: string, pairs: string): string {
  return pairs === "" ? name : `${name}{${pairs}}`;
}

function pairsOf(labels: Labels): string {
  let pairs = "";
  for (const label of Object.keys(labels)) {
    pairs += `${pairs === "" ? "" : ","}${label}="${escaped(labels[label] ?? "")}"`;
  }
  return pairs;
}

function escaped(text: string): string {
  return /["\\\n]/.test(text)
    ? text.replaceAll(/["\\\n]/g, (one) => (one === "\n" ? String.raw`\n` : `\\${one}`))
    : text;
}

function number(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}
