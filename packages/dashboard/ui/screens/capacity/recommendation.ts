/** A recommendation in words: how it differs from the workers that run, and from the estimate. */
import type { PoolCapacity } from "stint/inspect";
import { number } from "../../format.ts";

type Recommendation = Pick<PoolCapacity, "workers" | "needed" | "recommended">;

export function recommendationText({ workers, needed, recommended }: Recommendation): {
  change: string;
  because: string;
} {
  const more = recommended - workers;
  return {
    change: more === 0 ? "as now" : more > 0 ? `${number(more)} more` : `${number(-more)} fewer`,
    because: because(needed, recommended, workers),
  };
}

function because(needed: number, recommended: number, workers: number): string {
  if (needed === recommended) return "";
  const estimate = `${number(needed)} needed`;
  if (recommended < needed) return `${estimate}, held back by this`;
  // Nothing is removed that would leave the others more than 80 % busy.
  return recommended <= workers
    ? `${estimate}; the others are kept, so that a small change of load stops no worker`
    : `${estimate}; the others by a rule`;
}
