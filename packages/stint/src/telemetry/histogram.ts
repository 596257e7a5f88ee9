import type { Percentiles } from "../inspect/types.ts";

/** Upper bounds in seconds, the same in the process, in the database and in Prometheus. A last bucket takes larger values. */
export const bounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600,
];

/** Durations by bucket. Adding one costs a few comparisons, and no value is kept. */
export class Histogram {
  /** One for each bound and one for larger values. Not cumulative. */
  readonly counts: number[] = Array.from({ length: bounds.length + 1 }, () => 0);
  sumMs = 0;
  #longestMs = 0;

  add(ms: number): void {
    const seconds = ms / 1_000;
    let bucket = 0;
    while (bucket < bounds.length && seconds > (bounds[bucket] ?? Infinity)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sumMs += ms;
    if (ms > this.#longestMs) this.#longestMs = ms;
  }

  /** The longest duration since the last call. */
  takeLongest(): number {
    const ms = this.#longestMs;
    this.#longestMs = 0;
    return ms;
  }
}

/** Interpolated within the bucket that the share falls into. Null: the histogram is empty. */
export function percentile(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = share * total;
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && left <= count) {
      const from = bucket === 0 ? 0 : (bounds[bucket - 1] ?? 0);
      // Values beyond the last bound are at least that bound.
      const to = bounds[bucket] ?? from;
      return 1_000 * (from + (to - from) * (left / count));
    }
    left -= count;
  }
  return 1_000 * (bounds.at(-1) ?? 0);
}

export function percentiles(counts: readonly number[]): Percentiles {
  return { p50: percentile(counts, 0.5), p95: percentile(counts, 0.95), p99: percentile(counts, 0.99) };
}
