import type { Row } from "../core/types.ts";
import { barOf } from "./bar.ts";
import type { Bar, Chart, Group } from "./chart.ts";

/** The pinned xmin horizon: each system in the first and in the last window. */
export function horizonChart(rows: readonly Row[]): Chart {
  return {
    name: "horizon",
    title: "While a forgotten transaction keeps the server from cleaning up",
    panels: [
      {
        heading: "draining, jobs/s in the first and in the last tenth of the jobs; longer is better",
        scale: "linear",
        groups: [
          ...windows(rows, "drain", "a session held open"),
          ...windows(rows, "drain, nothing pinned", "nothing held open"),
        ],
      },
      {
        heading:
          "1,000 jobs/s arriving, three priorities, retries: ms from the intended time to the handler; shorter is better; logarithmic",
        scale: "log",
        groups: [
          { heading: "first against last sixth of the time", bars: steadyBars(rows, windowNames) },
          {
            heading: "what lies behind everything that was claimed",
            bars: steadyBars(rows, behindNames),
          },
        ].filter((group) => group.bars.length > 0),
      },
    ],
  };
}

const windowNames = ["first window p50", "last window p50", "first window p99", "last window p99"];
const behindNames = ["late commits", "retries", "new higher priorities"].flatMap((what) => [
  `${what} p50`,
  `${what} max`,
]);

function windows(rows: readonly Row[], variant: string, heading: string): Group[] {
  const systems = [...new Set(rows.map((row) => row.system))];
  return systems.flatMap((system) => {
    const bars = ["first window", "last window"].flatMap((window) =>
      rows
        .filter(
          (row) => row.system === system && row.unit === "jobs/s" && row.variant === `${variant} ${window}`,
        )
        .map((row) => barOf(row, { label: window, pale: window === "first window" })),
    );
    const config = system === "stint" ? "default" : "fast";
    return bars.length === 0 ? [] : [{ heading: `${system} ${config}, ${heading}`, bars }];
  });
}

function steadyBars(rows: readonly Row[], names: readonly string[]): Bar[] {
  return names.flatMap((name) =>
    rows
      .filter((row) => row.unit === "ms" && row.variant === `steady ${name}`)
      .map((row) => barOf(row, { label: name, pale: isPale(name) })),
  );
}

function isPale(name: string): boolean {
  return name.startsWith("first") || (behindNames.includes(name) && name.endsWith("p50"));
}
