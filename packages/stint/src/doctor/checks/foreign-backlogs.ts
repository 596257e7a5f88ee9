import { formatCount, plural } from "../../model/figures.ts";
import { foreignBacklogs as find, type ForeignBacklog } from "../../sql/doctor/foreign-backlogs.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

/** A sweep past this many jobs takes about 10 ms (decision 0041). Below it, no person would notice. */
const least = 20_000;

/** Backlogs that workers of a queue must read past, because they do not serve those kinds. */
export const foreignBacklogs: Check = {
  name: "foreign backlogs",
  needsSchema: true,
  look: async ({ session }) => foreignBacklogsRule(await find(session, least)),
};

export function foreignBacklogsRule(found: readonly ForeignBacklog[]): Seen {
  const findings = found.map(({ queue, ready, kinds, workers }) =>
    warning(
      "Workers read past many ready jobs of kinds that they do not serve",
      `queue ${queue}: ${formatCount(ready)} jobs of ${kinds.join(", ")}, passed over by ${plural(workers, "worker")}`,
      "Give these kinds a queue of their own, or let every worker of the queue serve all its kinds.",
    ),
  );
  return {
    seen: found.length === 0 ? "none" : plural(found.length, "backlog"),
    findings,
  };
}
