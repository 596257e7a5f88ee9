import type { Panel } from "./chart.ts";

/** Maps a value to 0 … 1. */
export type Scale = { at(value: number): number; ticks: readonly number[] };

export function scaleOf({ scale, groups, line }: Panel): Scale {
  const values = groups.flatMap((group) => group.bars.flatMap((bar) => [bar.value, bar.max]));
  const all = [...values, line ?? 0].filter((value) => Number.isFinite(value));
  return scale === "log" ? logarithmic(all) : linear(all);
}

function linear(values: readonly number[]): Scale {
  const largest = Math.max(...values, Number.MIN_VALUE);
  const step = niceStep(largest / 4);
  const end = Math.ceil(largest / step) * step;
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, index) => index * step);
  return { at: (value) => Math.max(0, value) / end, ticks };
}

/** Starts at the power of ten below the smallest value, so that every bar has a length. */
function logarithmic(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...positive, 1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive, 1))));
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return {
    at: (value) => (value <= 0 ? 0 : Math.max(0, (Math.log10(value) - low) / (high - low))),
    ticks,
  };
}

/** Rounds up to 1, 2 or 5 times a power of ten. */
function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough) ?? 10;
  return factor * power;
}
