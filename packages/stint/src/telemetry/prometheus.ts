import { bounds } from "./histogram.ts";
import type { MetricDefinition } from "./registry.ts";
import {
  bounded,
  type HistogramSample,
  type Labels,
  type Pairs,
  type MetricSamples,
} from "./metric-samples.ts";

/** The text format, version 0.0.4, which everything that scrapes can read. */
export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Write readings as Prometheus reads them. A metric that has nothing to say is left out.
 * @param kept The pairs of queue and kind that a metric tells apart for good.
 */
export function renderSamples(
  readings: readonly MetricSamples[],
  kept: ReadonlyMap<MetricDefinition, Pairs> = new Map(),
): string {
  return readings.map((reading) => renderOne(bounded(reading, kept.get(reading.metric)))).join("");
}

function renderOne(reading: MetricSamples): string {
  const { metric } = reading;
  const lines =
    "histograms" in reading
      ? reading.histograms.flatMap((sample) => histogramLines(metric, sample))
      : reading.samples.map(({ labels, value }) => line(metric.name, labels, value));
  if (lines.length === 0) return "";
  const help = metric.help.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
  return [`# HELP ${metric.name} ${help}`, `# TYPE ${metric.name} ${metric.type}`, ...lines, ""].join("\n");
}

/** The same for every histogram of durations, so they are written once. */
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
