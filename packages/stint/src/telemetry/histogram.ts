import type { Percentiles } from "../inspect/types.ts";

/** Upper bounds in seconds, the same everywhere: in the process, in the database, in what Prometheus reads. The last bucket is open. */
export const bounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600,
];

/** How often what lasted how long. Adding costs a few comparisons and nothing is kept per value. */
export class Histogram {
  /** One for each bound, and one for all beyond. Not cumulative. */
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

  /** The longest since this was last called. */
  takeLongest(): number {
    const ms = this.#longestMs;
    this.#longestMs = 0;
    return ms;
  }
}

/** Estimated within the bucket the share falls into, by how far into it; null when nothing was counted. */
export function percentile(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = share * total;
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && left <= count) {
      const from = bucket === 0 ? 0 : (bounds[bucket - 1] ?? 0);
      // What lies beyond the last bound is at least that.
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
