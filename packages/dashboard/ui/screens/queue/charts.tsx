import type { Series, SeriesPoint } from "stint/inspect";
import { useMemo } from "react";
import type { Wire } from "../../api.ts";
import { Chart, type ChartLine } from "../../components/chart.tsx";
import type { Zoom } from "../../components/zoom.tsx";
import { duration, durationSteps, rate, roundDuration, short } from "../../format.ts";
import { finishedSteps } from "../../finished.ts";
import { bridged, smoothed } from "./smooth.ts";

type Point = Wire<SeriesPoint>;

/** The maximum delay until counts reach the series. */
const lateSeconds = 15;

/** Charts with one time axis: throughput, age, depth, durations, failures. */
export function QueueCharts({
  series,
  targetMs,
  zoom,
  onZoom,
}: {
  readonly series: Wire<Series> | undefined;
  readonly targetMs: number | undefined;
  readonly zoom: Zoom | undefined;
  readonly onZoom: (zoom: Zoom | undefined) => void;
}) {
  const { times, charts } = useMemo(() => drawn(series), [series]);
  return (
    <div className="queue-charts">
      {charts.map(({ title, lines, format, target }) => (
        <Chart
          key={title}
          title={title}
          times={times}
          lines={lines}
          format={format}
          zoom={zoom}
          onZoom={onZoom}
          {...(format === duration ? { scale: ofDurations } : format === short ? { scale: ofCounts } : {})}
          level={
            target && targetMs !== undefined
              ? { value: targetMs, title: `target ${roundDuration(targetMs)}` }
              : undefined
          }
        />
      ))}
    </div>
  );
}

const ofDurations = { steps: durationSteps, format: roundDuration };
/** Whole numbers only: 1, 2, 5, 10 and so on. */
const ofCounts = {
  steps: Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat(),
  format: short,
};

type Drawn = {
  readonly title: string;
  readonly lines: readonly ChartLine[];
  readonly format: (value: number) => string;
  readonly target: boolean;
};

function drawn(series: Wire<Series> | undefined): { times: readonly number[]; charts: readonly Drawn[] } {
  const points = series?.points ?? [];
  const seconds = (series?.stepMs ?? 60_000) / 1_000;
  const brief = seconds <= lateSeconds;
  const of = (read: (point: Point) => number | null) => points.map(read);
  const sampled = (read: (point: Point) => number | null) => (brief ? bridged(of(read)) : of(read));
  const finished = series === undefined ? [] : finishedSteps(series);
  const whole = (values: readonly (number | null)[]) =>
    values.map((value, index) => (finished[index] === true ? value : null));
  const perSecond = (read: (point: Point) => number) =>
    whole((brief ? smoothed(points.map(read)) : points.map(read)).map((count) => count / seconds));
  const percentiles = (read: (point: Point) => Point["run"]): readonly ChartLine[] => [
    { title: "p50", colour: "--series-2", values: whole(sampled((point) => read(point).p50)) },
    { title: "p95", colour: "--series-1", dash: [6, 3], values: whole(sampled((point) => read(point).p95)) },
    { title: "p99", colour: "--series-5", dash: [2, 3], values: whole(sampled((point) => read(point).p99)) },
  ];
  return {
    times: points.map(({ at }) => Date.parse(at) / 1_000),
    charts: [
      {
        title: "Throughput",
        format: rate,
        target: false,
        lines: [
          {
            title: "Arrived",
            colour: "--series-6",
            dash: [2, 3],
            values: perSecond(({ arrived }) => arrived),
          },
          {
            title: "Succeeded",
            colour: "--series-2",
            filled: true,
            values: perSecond(({ succeeded }) => succeeded),
          },
          {
            title: "Retried",
            colour: "--series-4",
            dash: [6, 3],
            values: perSecond(({ retried }) => retried),
          },
          { title: "Dead", colour: "--series-3", values: perSecond(({ dead }) => dead) },
        ],
      },
      {
        title: "Oldest ready",
        format: duration,
        target: true,
        lines: [
          {
            title: "Age",
            colour: "--series-1",
            filled: true,
            values: of(({ oldestReadyMs }) => oldestReadyMs),
          },
        ],
      },
      {
        title: "Depth",
        format: short,
        target: false,
        lines: [
          { title: "Ready", colour: "--series-1", filled: true, values: sampled(({ ready }) => ready) },
          { title: "Running", colour: "--series-5", dash: [6, 3], values: sampled(({ running }) => running) },
        ],
      },
      {
        title: "Queue time",
        format: duration,
        target: false,
        lines: percentiles(({ wait }) => wait),
      },
      { title: "Run time", format: duration, target: false, lines: percentiles(({ run }) => run) },
      {
        title: "Failures",
        format: rate,
        target: false,
        lines: [
          { title: "Failed", colour: "--series-3", values: perSecond(({ failed }) => failed) },
          {
            title: "Rescued",
            colour: "--series-5",
            dash: [6, 3],
            values: perSecond(({ rescued }) => rescued),
          },
          {
            title: "Cancelled",
            colour: "--series-6",
            dash: [2, 3],
            values: perSecond(({ cancelled }) => cancelled),
          },
        ],
      },
    ],
  };
}
