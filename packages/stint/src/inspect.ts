/** The types of `stint.inspector()` and its constants. At run time it imports only constants, so it loads in a browser. */
export type { InspectorOptions } from "./stint.ts";
export {
  jobFilterKeys,
  seriesRanges,
  type BulkAction,
  type Count,
  type DeadGroups,
  type Depth,
  type Explanation,
  type Health,
  type Inspector,
  type JobDetail,
  type JobFilter,
  type JobPage,
  type JobRow,
  type KindView,
  type Operation,
  type OperationPreview,
  type Percentiles,
  type PreviewedSet,
  type QueueHealth,
  type Rates,
  type Series,
  type SeriesPoint,
  type SeriesRange,
  type SlowJob,
  type Stats,
  type TimelineStep,
  type UnservedKind,
  type WaitingTenants,
  type WorkerView,
} from "./inspect/types.ts";
export { isUnresponsive, unresponsiveAfterMs } from "./model/liveness.ts";
export type { DeadGroup } from "./sql/dead-groups.ts";
export type { WaitingTenant } from "./sql/waiting-tenants.ts";
