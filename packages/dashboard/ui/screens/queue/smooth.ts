/**
 * Workers report their counts about every ten seconds. A ten-second step may therefore get no report and the next step two. Without
 * smoothing, a steady queue would seem to stop again and again.
 */
const window = 3;

/** The mean of each count and the two before it. */
export function smoothed(counts: readonly number[]): number[] {
  return counts.map((_, index) => {
    const few = counts.slice(Math.max(0, index + 1 - window), index + 1);
    return few.reduce((sum, count) => sum + count, 0) / few.length;
  });
}

/** One step without a sample, between two that have one, takes that of the step before. Longer gaps stay gaps. */
export function bridged(samples: readonly (number | null)[]): (number | null)[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1] ?? null;
    const after = samples[index + 1] ?? null;
    return sample ?? (after === null ? null : before);
  });
}
