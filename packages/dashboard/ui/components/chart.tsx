import { useEffect, useRef } from "react";
import UPlot from "uplot";
import { useDark } from "../theme.ts";
import { topOf } from "./chart-scale.ts";
import type { Zoom } from "./zoom.tsx";
import "./chart.css";

export type ChartLine = {
  readonly title: string;
  readonly values: readonly (number | null)[];
  /** The CSS variable of the line's colour. */
  readonly colour: `--${string}`;
  /** Distinguishes lines without colour. */
  readonly dash?: readonly number[];
  /** Fills the area below the line. */
  readonly filled?: boolean;
};

type Props = {
  readonly title: string;
  /** Seconds since 1970, oldest first. */
  readonly times: readonly number[];
  readonly lines: readonly ChartLine[];
  readonly format: (value: number) => string;
  /** Positions and labels of the grid lines. Default: round decimal numbers. */
  readonly scale?: { readonly steps: readonly number[]; readonly format: (value: number) => string };
  /** A horizontal line, such as a target. */
  readonly level?: { readonly value: number; readonly title: string } | undefined;
  /** Vertical lines, such as deployments. */
  readonly marks?: readonly ChartMark[];
  /** The visible span. Undefined: everything. */
  readonly zoom: Zoom | undefined;
  /** A drag selected a span, or a double click reset it. */
  readonly onZoom: (zoom: Zoom | undefined) => void;
};

/** `at`: seconds since 1970. */
export type ChartMark = { readonly at: number; readonly title: string };
const noMarks: readonly ChartMark[] = [];

const height = 172;

/** Lines over time. Charts on one page share the cursor and the zoom: a drag selects a span, a double click shows everything. */
export function Chart({ title, times, lines, format, scale, level, marks = noMarks, zoom, onZoom }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const dark = useDark();
  const shared = useRef({ format, level, marks, onZoom });
  shared.current = { format, level, marks, onZoom };
  const { from, to } = zoom ?? {};
  const shape = lines.map((line) => `${line.title} ${line.colour}`).join("|");

  // Recreated when the lines or the theme change; new figures only replace the data.
  const latest = useRef({ times, lines });
  latest.current = { times, lines };
  useEffect(() => {
    const element = holder.current;
    if (element === null) return undefined;
    const made = new UPlot(
      options(element, latest.current.lines, shared, scale),
      data(latest.current.times, latest.current.lines),
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark, scale]);

  useEffect(() => {
    const drawn = plot.current;
    if (drawn === null) return;
    // A drag draws its selection on all charts of the page.
    drawn.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    drawn.setData(data(times, lines), from === undefined);
    if (from !== undefined && to !== undefined) drawn.setScale("x", { min: from, max: to });
  }, [times, lines, marks, from, to, shape, dark, scale]);

  return (
    <figure className="chart card">
      <figcaption>
        <h3>{title}</h3>
      </figcaption>
      <div
        role="img"
        aria-label={summary(title, lines, format, marks)}
        data-zoomed={zoom !== undefined || undefined}
      >
        {/* The legend is a table. A screen reader would read it cell by cell, so the label replaces it. */}
        <div
          ref={holder}
          className="chart-plot"
          aria-hidden="true"
          data-empty={(times.length > 0 && lines.every(isEmpty)) || undefined}
        />
      </div>
    </figure>
  );
}

const isEmpty = ({ values }: ChartLine) => values.every((value) => value === null);

/** A text summary for screen readers. */
function summary(
  title: string,
  lines: readonly ChartLine[],
  format: (value: number) => string,
  marks: readonly ChartMark[],
): string {
  const parts = lines.map((line) => {
    const known = line.values.filter((value) => value !== null);
    const last = known.at(-1);
    if (last === undefined) return `${line.title}: nothing`;
    return `${line.title}: ${format(last)} now, ${format(Math.max(...known))} at most`;
  });
  const marked = marks.map((mark) => `${mark.title} at ${clock(mark.at)}`);
  return `${title}. ${[...parts, ...marked].join("; ")}.`;
}

function data(times: readonly number[], lines: readonly ChartLine[]): UPlot.AlignedData {
  return [[...times], ...lines.map((line) => [...line.values])];
}

function options(
  element: HTMLElement,
  lines: readonly ChartLine[],
  shared: { readonly current: Pick<Props, "format" | "level" | "marks" | "onZoom"> },
  scale: Props["scale"],
): UPlot.Options {
  const colour = colours(element);
  const axis = { stroke: colour("--muted"), font: "11px system-ui, sans-serif" };
  const grid = { stroke: colour("--line"), width: 1 };
  return {
    width: Math.max(1, element.clientWidth),
    height,
    cursor: {
      y: false,
      sync: { key: "stint" },
      points: { size: 6 },
      drag: { x: true, y: false, dist: 8, setScale: false },
      bind: {
        dblclick: () => () => {
          shared.current.onZoom(undefined);
          return null;
        },
        // Only the chart under the pointer reports the selection, which is drawn on all of them.
        mouseup: (plot, _target, handle) => (event) => {
          handle(event);
          const { left, width: wide } = plot.select;
          if (wide >= 8)
            shared.current.onZoom({ from: plot.posToVal(left, "x"), to: plot.posToVal(left + wide, "x") });
          return null;
        },
      },
    },
    legend: { live: true, markers: { dash: (_plot, index) => dashWord(lines[index - 1]) } },
    padding: [8, 28, 0, 0],
    scales: {
      y: { range: (_plot, _min, max) => [0, topOf(max, shared.current.level?.value) * 1.08] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        ticks: { ...grid, size: 4 },
        size: 26,
        space: 64,
        values: (_plot, values, _index, _space, step) => values.map((at) => tick(at, step)),
      },
      {
        ...axis,
        grid,
        ticks: { show: false },
        size: 62,
        space: 34,
        ...(scale === undefined ? {} : { incrs: [...scale.steps] }),
        values: (_plot, values) => values.map((value) => (scale?.format ?? shared.current.format)(value)),
      },
    ],
    series: [
      { label: "Time", value: (_plot, at) => (at === null || at === undefined ? "now" : clock(at)) },
      ...lines.map((line) => ({
        label: line.title,
        stroke: colour(line.colour),
        width: 1.5,
        spanGaps: false,
        // A point between two gaps has no line, so it is drawn as a dot.
        points: { show: true, size: 4, fill: colour(line.colour), filter: alone },
        ...(line.dash === undefined ? {} : { dash: [...line.dash] }),
        ...(line.filled === true ? { fill: faded(colour(line.colour)) } : {}),
        value: (plot: UPlot, value: number | null, index: number) => {
          const shown =
            value ?? (plot.cursor.idx === null || plot.cursor.idx === undefined ? last(plot, index) : null);
          return shown === null ? "–" : shared.current.format(shown);
        },
      })),
    ],
    hooks: {
      draw: [
        (plot) => {
          const level = shared.current.level;
          if (level !== undefined) drawLevel(plot, level, colour("--late"));
          for (const mark of shared.current.marks ?? []) drawMark(plot, mark, colour("--muted"));
        },
      ],
    },
  };
}

/** Points without a neighbour. */
function alone(plot: UPlot, index: number, _show: boolean): number[] {
  const values = plot.data[index] ?? [];
  const isKnown = (at: number) => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

function dashWord(line: ChartLine | undefined): string {
  if (line?.dash === undefined) return "solid";
  return (line.dash[0] ?? 0) > 3 ? "dashed" : "dotted";
}

function last(plot: UPlot, index: number): number | null {
  const values = plot.data[index];
  for (let at = (values?.length ?? 0) - 1; at >= 0; at--) {
    const value = values?.[at];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

function drawLevel(plot: UPlot, level: { value: number; title: string }, colour: string): void {
  const y = Math.round(plot.valToPos(level.value, "y", true));
  const { left, width, top } = plot.bbox;
  const { ctx } = plot;
  const scale = globalThis.devicePixelRatio;
  const inSight = y >= top;
  ctx.save();
  ctx.fillStyle = colour;
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = inSight ? "bottom" : "top";
  ctx.fillText(
    inSight ? level.title : `${level.title} ↑`,
    left + width - 4 * scale,
    inSight ? y - 2 * scale : top + 2 * scale,
  );
  if (inSight) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = scale;
    ctx.setLineDash([6 * scale, 4 * scale]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
  }
  ctx.restore();
}

function drawMark(plot: UPlot, mark: ChartMark, colour: string): void {
  const x = Math.round(plot.valToPos(mark.at, "x", true));
  const { left, width, top, height: tall } = plot.bbox;
  if (x < left || x > left + width) return;
  const { ctx } = plot;
  const scale = globalThis.devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.lineWidth = scale;
  ctx.setLineDash([2 * scale, 3 * scale]);
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, top + tall);
  ctx.stroke();
  ctx.font = `${10 * scale}px system-ui, sans-serif`;
  // Right of the line, or left of it if the label does not fit.
  const turned = x > left + 0.8 * width;
  ctx.textAlign = turned ? "right" : "left";
  ctx.textBaseline = "top";
  ctx.fillText(mark.title, x + (turned ? -3 : 3) * scale, top + scale);
  ctx.restore();
}

/** The theme's colours resolved for a canvas: getPropertyValue returns custom properties unresolved. */
function colours(element: HTMLElement): (token: string) => string {
  return (token) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

const faded = (colour: string) => colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");

const moment = new Intl.DateTimeFormat("en-GB", {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric" });
const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const precise = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const clock = (seconds: number) => moment.format(seconds * 1_000);

/** The date for daily ticks and at midnight, seconds for ticks closer than a minute, otherwise the time. */
function tick(seconds: number, step: number): string {
  const at = new Date(seconds * 1_000);
  if (step < 60) return precise.format(at);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
  return (step >= 86_400 || isMidnight ? day : time).format(at);
}
