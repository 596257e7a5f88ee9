import type { Count } from "stint/inspect";
import { number } from "../../format.ts";

/** `1,240`, or `10,000+` where counting stopped; `?` where it stopped before the first was found. */
export function counted({ count, capped }: Count): string {
  if (!capped) return number(count);
  return count === 0 ? "?" : `${number(count)}+`;
}

export function countedJobs(matched: Count): string {
  return `${counted(matched)} ${matched.count === 1 && !matched.capped ? "job" : "jobs"}`;
}
