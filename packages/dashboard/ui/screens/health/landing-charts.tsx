import { useMemo } from "react";
import { Chart, type ChartMark } from "../../components/chart.tsx";
import { Section } from "../../components/page.tsx";
import { useZoom, ZoomNote } from "../../components/zoom.tsx";
import { duration, durationSteps, rate, roundDuration } from "../../format.ts";
import { useSeries, useWorkers } from "../../queries.ts";
import { finishedSteps } from "../../finished.ts";
import { smoothed } from "../queue/smooth.ts";
import { trimEmpty } from "../queue/trim-empty.ts";
import { deploysOf } from "./deploys.ts";

const ofDurations = { steps: durationSteps, format: roundDuration };

/** The last hour of the whole installation, with marks for new worker versions. */
export function LandingCharts() {
  const { data: series } = useSeries({ range: "1h" });
  const { data: workers } = useWorkers();
  const [zoom, setZoom] = useZoom();
  const shown = useMemo(() => trimEmpty(series).series, [series]);
  const drawn = useMemo(() => {
    if (shown === undefined) return undefined;
    const { points, stepMs } = shown;
    const finished = finishedSteps(shown);
    const whole = (values: readonly (number | null)[]) =>
      values.map((value, index) => (finished[index] === true ? value : null));
    const perSecond = (counts: readonly number[]) =>
      whole(smoothed(counts).map((count) => count / (stepMs / 1_000)));
    return {
      times: points.map(({ at }) => Date.parse(at) / 1_000),
      succeeded: perSecond(points.map((point) => point.succeeded)),
      arrived: perSecond(points.map((point) => point.arrived)),
      failed: perSecond(points.map((point) => point.failed)),
      dead: perSecond(points.map((point) => point.dead)),
      wait: whole(points.map((point) => point.wait.p95)),
    };
  }, [shown]);
  const since = drawn?.times[0];
  const marks: readonly ChartMark[] = useMemo(
    () => (since === undefined ? [] : deploysOf(workers ?? [], since)),
    [workers, since],
  );
  if (drawn === undefined) return null;
  const { times } = drawn;
  return (
    <Section
      title="Last hour"
      aside={<ZoomNote zoom={zoom} setZoom={setZoom} whole="Drag to zoom, double-click to reset" />}
    >
      <div className="landing-charts">
        <Chart
          title="Throughput"
          times={times}
          format={rate}
          marks={marks}
          zoom={zoom}
          onZoom={setZoom}
          lines={[
            { title: "Arrived", colour: "--series-6", dash: [2, 3], values: drawn.arrived },
            { title: "Succeeded", colour: "--series-2", filled: true, values: drawn.succeeded },
          ]}
        />
        <Chart
          title="Failures"
          times={times}
          format={rate}
          marks={marks}
          zoom={zoom}
          onZoom={setZoom}
          lines={[
            { title: "Failed", colour: "--series-4", dash: [6, 3], values: drawn.failed },
            { title: "Dead", colour: "--series-3", values: drawn.dead },
          ]}
        />
        <Chart
          title="Queue time p95"
          times={times}
          format={duration}
          scale={ofDurations}
          marks={marks}
          zoom={zoom}
          onZoom={setZoom}
          lines={[{ title: "p95", colour: "--series-1", filled: true, values: drawn.wait }]}
        />
      </div>
    </Section>
  );
}
