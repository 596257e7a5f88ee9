import type { Series, SeriesPoint } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { roundDuration } from "../../format.ts";

type Known = { readonly series: Wire<Series> | undefined; readonly detail: string };

/** The minimum number of points, so that a chart is never a single point. */
const fewest = 12;

/** Drops the empty beginning of a series. An installation that is minutes old would otherwise show an almost empty hour. */
export function trimEmpty(series: Wire<Series> | undefined): Known {
  if (series?.points === undefined) return { series: undefined, detail: " " };
  const step = `one point is ${roundDuration(series.stepMs)}`;
  const first = series.points.findIndex(hasFigures);
  const from = Math.max(0, Math.min(first - 1, series.points.length - fewest));
  const begin = series.points[from];
  if (from === 0 || begin === undefined) return { series, detail: step };
  return {
    series: { ...series, points: series.points.slice(from) },
    detail: `figures begin at ${clock.format(Date.parse(begin.at))}, ${step}`,
  };
}

function hasFigures({
  arrived,
  claimed,
  succeeded,
  failed,
  ready,
  oldestReadyMs,
}: Wire<SeriesPoint>): boolean {
  return arrived + claimed + succeeded + failed > 0 || ready !== null || oldestReadyMs !== null;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
