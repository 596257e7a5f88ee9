import { flowFilter, type ListFlowsOptions } from "../client/flows.ts";
import { requireId } from "../client/ids.ts";
import { withRetry } from "../client/retry.ts";
import type { Db } from "../db/db.ts";
import { findFlow, listFlows, type FlowSummary, type FlowView } from "../sql/flows.ts";

export type FlowRows = {
  readonly flows: readonly FlowSummary[];
  /** Pass it as `after` for the next page. */
  readonly next: string | null;
};

export type FlowsInspector = {
  /** Flows, chains and batches, newest first, a page at a time. */
  flows(filter?: ListFlowsOptions): Promise<FlowRows>;
  /** A flow by its id or by the id of any of its jobs, with up to a thousand of its parts. */
  flow(id: string): Promise<FlowView | undefined>;
};

export function inspectFlows(db: Db): FlowsInspector {
  return {
    async flows(options = {}) {
      const filter = flowFilter(options);
      const found = await withRetry(db, (run) => listFlows(run, { ...filter, limit: filter.limit + 1 }));
      const flows = found.slice(0, filter.limit);
      return { flows, next: found.length > filter.limit ? (flows.at(-1)?.id ?? null) : null };
    },
    async flow(id) {
      const wanted = requireId(id, "flow(id)");
      return await withRetry(db, (run) => findFlow(run, wanted));
    },
  };
}
