import { enoughEnded } from "../model/slow.ts";
import type { Runs } from "../sql/series.ts";
import { percentile } from "./histogram.ts";

/** The 95th percentile of each kind's run times. Kinds with too few ended attempts are left out. */
export function runBaselines(runs: Runs): ReadonlyMap<string, number> {
  const baselines = new Map<string, number>();
  for (const [kind, counts] of runs) {
    const ended = counts.reduce((sum, count) => sum + count, 0);
    const p95 = ended < enoughEnded ? null : percentile(counts, 0.95);
    if (p95 !== null) baselines.set(kind, p95);
  }
  return baselines;
}
