import { sortsTable } from "../sql/explain.ts";
import type { SeenPlan } from "./counted-server.ts";

/**
 * Statements that may sort, or read a whole table of jobs: none that runs for each job. Each of these runs once for a worker's
 * start, or once in minutes, or sorts nothing but what it was given.
 */
const allowed = new Set([
  // Once at the start, the kinds that one worker serves: all workers write them in one order.
  "register-kinds: Sort",
  // Every 75 seconds, at most 20 groups out of the first 200 jobs of each queue.
  "unserved: Sort",
  // Every ten minutes. The dead are read whole only while they are few, the rest only because it should be empty.
  "prune-dead: Sort",
  "prune-dead: Seq Scan history_dead",
  "prune-rest: Seq Scan history_done_rest",
  "prune-windows: Sort",
  "drop_partitions(): Sort",
  // The rows of one call, put in the order of their locks: jobs with a dedupe key, or enqueued again. The result is
  // put back in the order of the call.
  "enqueue_rows(): Sort",
  "enqueue: Sort",
  // Every ten seconds, what one worker counted, put in the order of its locks.
  "record_series(): Sort",
  "record_tenants(): Sort",
  // The entries since the last fold, by kind.
  "fold_tallies(): Sort",
  // And what it wrote within a minute, put together by kind when that is over.
  "roll_up_series(): Sort",
  // And what it asks in return: how long runs lasted, a row for each hour of the last day and each kind.
  "flush: Sort",
]);

/** Sorts, and scans of whole tables of jobs, in plans that statements really ran with. */
export function planFaults(plans: readonly SeenPlan[]): string[] {
  const faults = plans.flatMap(({ name, nodes }) =>
    nodes.flatMap((node) => {
      const type = node["Node Type"];
      const relation = node["Relation Name"] ?? "";
      if (sortsTable(node)) return [`${name}: ${type}`];
      return type === "Seq Scan" && /^(?:job|history.*)$/.test(relation)
        ? [`${name}: ${type} ${relation}`]
        : [];
    }),
  );
  return [...new Set(faults)].filter((fault) => !allowed.has(fault));
}
