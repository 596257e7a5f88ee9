export { createStint } from "./create-stint.ts";
export type { Stint } from "./stint.ts";
export {
  entry,
  type Batch,
  type BatchOptions,
  type Enqueued,
  type Enqueues,
  type Flow,
  type FlowParts,
  type InOptions,
  type ManyEntry,
} from "./client/entries.ts";
export type { JobChange } from "./client/change.ts";
export type { CommitHook } from "./client/commit-watch.ts";
export type { InTransaction } from "./client/in-transaction.ts";
export type { FlowsClient, ListFlowsOptions } from "./client/flows.ts";
export {
  defineJob,
  typed,
  type DefineOptions,
  type JobDefinition,
  type JobTypes,
  type KindOptions,
  type PayloadOf,
  type ResultOf,
} from "./define.ts";
export { handle } from "./worker/handle.ts";
export type { Isolate } from "./worker/isolation/isolate-options.ts";
export type { ByteSize } from "./model/byte-size.ts";
export type {
  AnyMiddleware,
  Handler,
  HandlerContext,
  HandlerFunction,
  HandleOptions,
  Middleware,
  SignalOptions,
  WaitForSignal,
} from "./worker/handler.ts";
export { isSuspended, type Suspended } from "./worker/suspension.ts";
export type { Worker } from "./worker/worker.ts";
export type { WorkerOptions } from "./worker/options.ts";
export type {
  AttemptEvent,
  DeadEvent,
  FailedEvent,
  FailedJob,
  StopReport,
  WorkerEvents,
} from "./worker/events.ts";
export { serveHealth, type HealthOptions, type HealthServer } from "./health/server.ts";
export { renderMetrics } from "./telemetry/database-metrics.ts";
export { renderProcessMetrics, type Metered, type PoolView } from "./telemetry/process-metrics.ts";
export { metricsContentType } from "./telemetry/prometheus.ts";
export type { Telemetry } from "./model/telemetry.ts";
export {
  snooze,
  cancel,
  park,
  type Completed,
  type Continued,
  type Outcome,
  type ParkOptions,
  type WaitForChildren,
} from "./model/outcome.ts";
export type { DependencyResult, FlowPart, FlowState, FlowSummary, FlowView } from "./sql/flows.ts";
export type { FollowOptions } from "./worker/plan.ts";
export { exponential, steps, type Backoff } from "./model/backoff.ts";
export type { Duration } from "./model/duration.ts";
export type { Attempt, AttemptOutcome, Fence, Job } from "./model/job.ts";
export type { Failure } from "./model/failure.ts";
export type { ParkReason } from "./model/park-reasons.ts";
export { states as jobStates, type JobState } from "./model/state.ts";
export type {
  Admission,
  AdmissionPolicy,
  AdmissionSettings,
  AdmissionState,
  TenantAdmission,
  TenantAdmissionSettings,
  ShedOrder,
} from "./model/admission.ts";
export type { Fair, FairSettings, TenantWeights } from "./model/fairness.ts";
export type { Pause, PauseScope, PauseTarget } from "./model/pause.ts";
export type { QueueChange, QueueSetting, QueueSettings } from "./model/queue-settings.ts";
export type { StandardSchema } from "./model/standard-schema.ts";
export { defineConfig, type StintConfig } from "./config.ts";
export type { StintOptions } from "./client/options.ts";
export type { EnqueueOptions } from "./client/prepare.ts";
export type { DedupeUntil, ShapingOptions } from "./client/shaping.ts";
export type { WaitedJob, WaitedResults, WaitFor, WaitOptions } from "./client/wait-for.ts";
export type { BatchFunction, BatchHandlerOptions, BatchItem } from "./worker/batch.ts";
export type { EnqueueStatus } from "./model/enqueue-status.ts";
export type { Dependency } from "./client/after.ts";
export type { OnFailure } from "./sql/enqueue.ts";
export type { DependenciesClient } from "./client/dependencies.ts";
export {
  defineDependency,
  type DependencyDefinition,
  type DependencyOptions,
  type DependencyOptionsChange,
  type DependencySettings,
  type QuotaPeriod,
  type UseOptions,
} from "./model/dependencies.ts";
export type { DependencyAuditEntry, DependencyStatus } from "./sql/dependencies.ts";
export type { LimitsClient } from "./client/limits.ts";
export type { LimitOptions, OrderOptions } from "./model/limits.ts";
export type { Limit, LimitAuditEntry, LimitKey } from "./sql/limits.ts";
export type { PauseOptions, PausesClient, ResumeOptions } from "./client/pauses.ts";
export type { QueueSettingsClient } from "./client/queue-settings.ts";
export type { JobSteps } from "./client/steps.ts";
export type { ProgressView } from "./sql/progress.ts";
export type { SignalView } from "./sql/signals.ts";
export type { StepView } from "./sql/steps.ts";
export type { SignalSendOptions, SignalTarget } from "./client/signals.ts";
export {
  defineSchedule,
  type ScheduledJobOptions,
  type ScheduleDefinition,
  type ScheduleOptions,
  type SetScheduleOptions,
} from "./client/define-schedule.ts";
export type { ListSchedulesOptions, NextSlotsOptions, SchedulePage } from "./client/read-schedules.ts";
export type { ScheduleEntry, SchedulesClient, SchedulesInside } from "./client/schedules.ts";
export type { CatchUp, Overlap, ScheduleTiming } from "./model/schedule.ts";
export type { AgainOptions } from "./worker/again.ts";
export type { ScheduledSlot } from "./model/scheduled-slot.ts";
export type { QuietHours } from "./model/quiet-hours.ts";
export type { Schedule, ScheduleDetail, ScheduleState } from "./sql/schedules.ts";
export type { Slot } from "./sql/schedule-slots.ts";
export type { ActOptions, ListOptions, Page } from "./client/jobs.ts";
export type { Connection, ConnectionParts, PoolLike } from "./db/connection.ts";
export type { Tx } from "./db/db.ts";
export type { TransactionLike } from "./db/transactions/user-transaction.ts";
export type { PauseAuditEntry } from "./sql/pauses.ts";
export type { QueueAuditEntry } from "./sql/queue-settings.ts";
export type { QueueCounts } from "./sql/queues.ts";
export type { AuditEntry } from "./sql/audit.ts";
export type { LiveWorker } from "./sql/workers.ts";
export { jsonLogger, silentLogger, type Logger } from "./runtime/logger.ts";
export {
  BatchClosedError,
  CancelledError,
  CrashedError,
  DatabaseUnavailableError,
  HandlerCrashedError,
  InvalidOptionError,
  InvalidPayloadError,
  JobFailedError,
  JobNotFoundError,
  QueueFullError,
  LeaseLostError,
  LeasesUnavailableError,
  PermanentError,
  RateLimitedError,
  ScheduleConflictError,
  ScheduleNotFoundError,
  SchemaVersionError,
  StepOrderError,
  StintError,
  StoppingError,
  TimedOutError,
  TooManyOperationsError,
  TransactionRequiredError,
  UnknownKindError,
  UnknownOutcomeError,
  WaitTimeoutError,
  WrongStateError,
} from "./errors.ts";
export { version } from "./version.ts";
