import { bounds, percentiles } from "../telemetry/histogram.ts";
import { seriesCounters, type SeriesCounter, type SeriesCounts, type SeriesSums } from "../sql/series.ts";
import type { DepthRow } from "../sql/depth.ts";
import { depthStates, type Depth, type Rates, type SeriesPoint } from "./types.ts";

export function sumDepth(rows: readonly Depth[]): Depth {
  const sum: Record<keyof Depth, number> = {
    scheduled: 0,
    ready: 0,
    running: 0,
    retrying: 0,
    parked: 0,
    dead: 0,
  };
  for (const row of rows) for (const state of depthStates) sum[state] += row[state];
  return sum;
}

/** The depth of each group of rows, in order of first appearance. */
export function depthBy<Key>(
  rows: readonly DepthRow[],
  keyOf: (row: DepthRow) => Key & object,
): (Key & { depth: Depth })[] {
  const groups = new Map<string, { key: Key & object; rows: DepthRow[] }>();
  for (const row of rows) {
    const key = keyOf(row);
    const name = JSON.stringify(key);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, { key, rows: [row] });
    else group.rows.push(row);
  }
  return [...groups.values()].map(({ key, rows: own }) => Object.assign(key, { depth: sumDepth(own) }));
}

export function sumSeries(rows: readonly SeriesSums[]): SeriesSums {
  const counters = Object.fromEntries(
    seriesCounters.map((counter) => [counter, rows.reduce((sum, row) => sum + row[counter], 0)]),
  ) as Record<SeriesCounter, number>;
  const buckets = (of: (row: SeriesSums) => readonly number[]): number[] =>
    Array.from({ length: bounds.length + 1 }, (_, n) =>
      rows.reduce((sum, row) => sum + (of(row)[n] ?? 0), 0),
    );
  return {
    ...counters,
    wait: buckets(({ wait }) => wait),
    run: buckets(({ run }) => run),
    longestWaitMs: highest(rows.map((row) => row.longestWaitMs)),
  };
}

/** The maximum of the values that are not null. */
export function highest(values: readonly (number | null)[]): number | null {
  return values.reduce((most, value) => (value === null ? most : Math.max(value, most ?? value)), null);
}

/** Jobs that ended. A retried, snoozed or parked attempt does not end its job. */
function endedOf({ succeeded, dead, cancelled }: SeriesCounts): number {
  return succeeded + dead + cancelled;
}

/** Attempts that ended, with any outcome. */
export function attemptsOf(sums: SeriesCounts): number {
  return sums.succeeded + failedOf(sums) + sums.cancelled + sums.snoozed + sums.parked;
}

/** A timed-out attempt counts as failed. */
function failedOf({ failed, timedOut }: SeriesCounts): number {
  return failed + timedOut;
}

export function toRates(sums: SeriesCounts, seconds: number): Rates {
  const per = (count: number): number => (seconds > 0 ? count / seconds : 0);
  return {
    arrived: per(sums.arrived),
    claimed: per(sums.claimed),
    ended: per(endedOf(sums)),
    succeeded: per(sums.succeeded),
    failed: per(failedOf(sums)),
    retried: per(sums.retried),
    dead: per(sums.dead),
  };
}

export function toPoint(sums: SeriesSums): Omit<SeriesPoint, "at" | "ready" | "running" | "oldestReadyMs"> {
  const { arrived, claimed, succeeded, retried, dead, cancelled, rescued, wait, run } = sums;
  return {
    arrived,
    claimed,
    succeeded,
    failed: failedOf(sums),
    retried,
    dead,
    cancelled,
    rescued,
    wait: percentiles(wait),
    run: percentiles(run),
  };
}
