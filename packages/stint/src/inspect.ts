/** The types of `stint.inspector()`, its constants, and how figures are written. Loads in a browser: no import needs Node. */
export type { InspectorOptions } from "./inspect/types.ts";
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
  type QueuePaused,
  type QueueTenants,
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
export type { Capacity, CapacityOptions, CapacityPool, PoolCapacity } from "./inspect/capacity.ts";
export type { Controls, QueueAdmission } from "./inspect/controls.ts";
export type { FlowRows } from "./inspect/flows.ts";
export type { LocalSlots, ScheduleRow, ScheduleRows, ScheduleView } from "./inspect/schedules.ts";
export { formatCount, formatMs, plural } from "./model/figures.ts";
export type { LimitedBy, LimitingFactor, ScalingOptions, ScalingRule } from "./model/scaling.ts";
export { isUnresponsive, unresponsiveAfterMs } from "./model/liveness.ts";
export type { ControlChange } from "./sql/audit.ts";
export type { DeadGroup } from "./sql/dead-groups.ts";
export type { FlowNeighbour, JobFlow } from "./sql/flows.ts";
export type { ScheduleCounts } from "./sql/schedules.ts";
export type { WaitingTenant } from "./sql/waiting-tenants.ts";
export type { WorkerStop } from "./sql/workers.ts";
