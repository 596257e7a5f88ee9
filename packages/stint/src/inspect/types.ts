/**
 * The results of the inspector, shown by the dashboard, `stint top` and other commands. Durations are in milliseconds, rates per
 * second. Every figure is a tally or bounded; none is found by counting a table.
 */
import type { JobSteps } from "../client/steps.ts";
import type { Duration } from "../model/duration.ts";
import type { Job } from "../model/job.ts";
import type { TargetSource } from "../model/queue-settings.ts";
import type { JobState } from "../model/state.ts";
import type { Arrivals } from "../sql/arrivals.ts";
import type { AuditEntry } from "../sql/audit.ts";
import type { DeadGroup } from "../sql/dead-groups.ts";
import type { JobFlow } from "../sql/flows.ts";
import type { FoundJob } from "../sql/search.ts";
import type { LiveWorker, WorkerStop } from "../sql/workers.ts";
import type { Capacity, CapacityOptions } from "./capacity.ts";
import type { Controls } from "./controls.ts";
import type { FlowsInspector } from "./flows.ts";
import type { Count, Depth, Percentiles, Rates } from "./quantities.ts";
import type { SchedulesInspector } from "./schedules.ts";
import type { QueueTenants, WaitingTenants } from "./tenants.ts";

export * from "./quantities.ts";
export type { SchedulesInspector } from "./schedules.ts";
export type { QueueTenants, WaitingTenants } from "./tenants.ts";

export type InspectorOptions = {
  /** Connections of its own. Default 2. */
  connections?: number;
  /** How long the database may work on one question. Default "5s". */
  timeout?: Duration;
};

/** One row of the Health screen. */
export type QueueHealth = {
  readonly queue: string;
  readonly depth: Depth;
  /** How long the oldest ready job has waited past its run time; null when none waits. */
  readonly oldestReadyMs: number | null;
  /** The age it should stay below: the queue's own, else that of the longest pattern, else five minutes. */
  readonly targetMs: number;
  /** Whether that is the default, declared in code or a live change, and the name or pattern it was set for; null: none. */
  readonly targetFrom: { readonly source: TargetSource; readonly setFor: string | null };
  /**
   * Milliseconds until the oldest ready job passes the target at the current rates: 0 if it has, null if it will not. Rows are sorted by
   * this, soonest first.
   */
  readonly breachInMs: number | null;
  /** Set while the queue is paused: it has no forecast then, and its age is no breach. */
  readonly paused: QueuePaused | null;
  readonly rates: Rates;
  /** How long the ready jobs will take at the rate of the last minute; null when none end, or no worker serves some of them. */
  readonly drainMs: number | null;
  /** Retries per ended attempt, 0 to 1, over the last 10 minutes; null when none ended. */
  readonly retryShare: number | null;
  readonly oldestDeadMs: number | null;
  readonly wait: Percentiles;
  readonly run: Percentiles;
  /**
   * `total`: slots of the workers that serve the queue and do not drain. `busy`: slots that run a job. `ahead`: jobs that are claimed and
   * wait for a slot; they count as running but have not started.
   */
  readonly slots: { readonly busy: number; readonly total: number; readonly ahead: number };
  /** Workers that serve it now. */
  readonly workers: number;
  /** For the sparkline: the last 30 minutes by minute, oldest first. */
  readonly recent: readonly {
    readonly at: Date;
    readonly arrived: number;
    readonly ended: number;
    readonly ready: number;
  }[];
};

/** Why a queue starts no jobs. `until`: when that ends by itself; null: when it is resumed. */
export type QueuePaused = {
  /** The paused name or pattern. */
  readonly setFor: string;
  readonly until: Date | null;
  readonly pausedAt: Date;
  readonly pausedBy: string;
  readonly reason: string;
};

export type Health = {
  readonly at: Date;
  readonly queues: readonly QueueHealth[];
  readonly total: Depth;
  readonly workers: number;
  /** Running jobs that are slow for their kind. */
  readonly slow: number;
  readonly unserved: readonly UnservedKind[];
};

export type UnservedKind = { readonly kind: string; readonly queue: string; readonly oldestReadyMs: number };

/** One point of a chart; counts cover its whole step. */
export type SeriesPoint = {
  readonly at: Date;
  readonly arrived: number;
  readonly claimed: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly retried: number;
  readonly dead: number;
  readonly cancelled: number;
  readonly rescued: number;
  /**
   * Depth at the end of the step, from the last sample by then; null before the first sample. A queue is sampled when it changes. For
   * all queues together, where very many changed very often, from the last wider step (a minute, ten minutes, an hour).
   */
  readonly ready: number | null;
  readonly running: number | null;
  /**
   * The age that the oldest ready job reached: its age at the end of the step, or the longest wait of an attempt that began in the step.
   * Null: no job waited.
   */
  readonly oldestReadyMs: number | null;
  readonly wait: Percentiles;
  readonly run: Percentiles;
};

export type SeriesRange = "1h" | "6h" | "24h" | "7d" | "30d";
export const seriesRanges: readonly SeriesRange[] = ["1h", "6h", "24h", "7d", "30d"];

export type Series = {
  readonly queue: string | null;
  readonly kind: string | null;
  readonly range: SeriesRange;
  readonly stepMs: number;
  /** Steps that end later are incomplete: drawn unchanged they would look like a drop. */
  readonly completeUntil: Date;
  /** Oldest first, one per step, including empty steps. */
  readonly points: readonly SeriesPoint[];
};

/** A kind and its normal figures, over the last day. */
export type KindView = {
  readonly kind: string;
  readonly queue: string;
  readonly depth: Depth;
  readonly rates: Rates;
  readonly wait: Percentiles;
  readonly run: Percentiles;
  /** Attempts per job that succeeded; null when none did. */
  readonly attemptsPerSuccess: number | null;
  /** Workers that serve it now. */
  readonly workers: number;
  /** Set only if the lease should be changed: how, and why. */
  readonly leaseAdvice: string | null;
};

export type JobFilter = {
  readonly state?: JobState | readonly JobState[];
  /** A kind, or a pattern for kinds such as `read-*`. */
  readonly kind?: string;
  /** A queue, or a pattern for queues such as `tenant-*`. */
  readonly queue?: string;
  readonly tenant?: string;
  readonly key?: string;
  readonly tag?: string;
  /** Part of the reason or of the last error's message. */
  readonly error?: string;
  /** The fingerprint of a group of dead jobs of one kind with the same error. */
  readonly fingerprint?: string;
  /** Enqueued at or after, and before. */
  readonly since?: Date;
  readonly until?: Date;
};

export const jobFilterKeys = [
  "state",
  "kind",
  "queue",
  "tenant",
  "key",
  "tag",
  "error",
  "fingerprint",
  "since",
  "until",
] as const satisfies (keyof JobFilter)[];

/** A job in a list: without payload and result. */
export type JobRow = FoundJob;

export type JobPage = {
  readonly jobs: readonly JobRow[];
  /** Pass it as `after` for the next page. */
  readonly next: string | null;
  /**
   * True: the search stopped at its limit of time or rows before the page was full. Search again with `next` as `after`: only a page that
   * is not partial shows that no other job matches.
   */
  readonly partial: boolean;
  /** On a partial page: the number of jobs examined, and the approximate total. */
  readonly progress?: { readonly searched: number; readonly of: number };
};

/** A step in a job's life, oldest first. */
export type TimelineStep = {
  readonly at: Date;
  readonly what:
    | "enqueued"
    | "due"
    | "claimed"
    | "attempt-ended"
    | "waiting"
    | "replayed"
    | "cancelled"
    | "run-now"
    | "ended";
  readonly title: string;
  readonly detail: string | null;
  readonly epoch: number | null;
  readonly worker: string | null;
  readonly durationMs: number | null;
};

export type JobDetail = {
  readonly job: Job;
  readonly leaseId: string | null;
  /** The attempt number that the handler saw, by the epoch of each entry of `job.log`. */
  readonly attemptOfEpoch: Readonly<Record<number, number>>;
  readonly timeline: readonly TimelineStep[];
  readonly audit: readonly AuditEntry[];
  readonly why: Explanation;
  /** The normal run times of its kind. */
  readonly run: Percentiles;
  readonly traceId: string | null;
  /** What it remembers and reports. */
  readonly steps: JobSteps["steps"];
  readonly progress: JobSteps["progress"];
  /** Signals that it has not received yet. */
  readonly signals: JobSteps["signals"];
  /** Since its handler last reported anything, if it runs and its kind declares `stallAfter`. */
  readonly stalledMs: number | null;
  /** Its place in a flow, a chain or a batch; null if it is part of none. */
  readonly flow: JobFlow | null;
};

/** Why a job is not running, or how it runs, in plain words. */
export type Explanation = {
  /** One sentence. */
  readonly summary: string;
  /** Most important first. `blocks`: this finding alone keeps the job from running now. */
  readonly findings: readonly {
    readonly blocks: boolean;
    readonly text: string;
    readonly advice: string | null;
  }[];
};

export type WorkerView = LiveWorker & {
  readonly busy: number;
  readonly slots: number;
  /** Claimed and waiting for a slot. */
  readonly waiting: number;
  readonly lagMs: number | null;
  readonly rssBytes: number | null;
  /** Time since its last report. */
  readonly heartbeatAgeMs: number;
  /** It missed two reports: killed, frozen or disconnected. */
  readonly unresponsive: boolean;
  /** Its version is older than the newest running version. */
  readonly behind: boolean;
};

export type SlowJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly worker: string | null;
  readonly attempt: number;
  readonly runningMs: number;
  /** The 95th percentile of its kind; null while there are too few runs. */
  readonly p95Ms: number | null;
  readonly because: "beyond-normal" | "near-lease" | "near-timeout" | "stalled";
  readonly text: string;
};

export type BulkAction = "cancel" | "run-now" | "replay";

/** A bulk operation. The set of jobs is fixed when it starts. */
export type Operation = {
  readonly id: string;
  readonly action: BulkAction;
  readonly filter: JobFilter;
  readonly reason: string;
  readonly actor: string;
  readonly state: "running" | "finished" | "aborted" | "abandoned";
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  /** The number of matching jobs when it started. */
  readonly matched: Count;
  readonly done: number;
  /** Jobs that were found and not changed: they came or changed after the preview, or another session had locked them. */
  readonly skipped: number;
  /** Matching jobs that had changed before their turn. Null while it runs, or if the matches were not all counted. */
  readonly changed: number | null;
  /** Why it was abandoned, if known. */
  readonly error?: string;
};

export type OperationPreview = {
  readonly matched: Count;
  readonly sample: readonly JobRow[];
  /** The time of the preview, by the database's clock. Pass it to `begin`: jobs that match only later are not changed. */
  readonly asOf: string;
};

/** The preview on which a person based the operation. */
export type PreviewedSet = Pick<OperationPreview, "matched" | "asOf">;

export type Stats = {
  readonly at: Date;
  readonly total: Depth;
  readonly rates: Rates;
  readonly lastHour: Omit<SeriesPoint, "at" | "ready" | "running" | "oldestReadyMs">;
  readonly byQueue: readonly { readonly queue: string; readonly depth: Depth }[];
  readonly byKind: readonly { readonly kind: string; readonly queue: string; readonly depth: Depth }[];
  readonly byPriority: readonly {
    readonly queue: string;
    readonly priority: number;
    readonly depth: Depth;
  }[];
  /** Enqueued and replayed jobs. A counter restarts at zero if its name was long unused among more than a thousand names. */
  readonly arrivals: readonly Arrivals[];
  /** The tenants with the most ended attempts in the last hour. */
  readonly topTenants: readonly { readonly tenant: string; readonly ended: number; readonly runMs: number }[];
};

/** Dead jobs grouped by error. */
export type DeadGroups = {
  /** The largest first, at most a hundred. */
  readonly groups: readonly DeadGroup[];
  /** Dead jobs in further groups. */
  readonly others: number;
  /** The number of dead jobs examined; capped: only the newest were. */
  readonly of: Count;
};

/**
 * Reads an installation on its own connections, with a time limit on each statement. Made by `stint.inspector()`.
 */
export type Inspector = SchedulesInspector &
  FlowsInspector & {
    /** The schema of the installation. */
    readonly schema: string;
    health(): Promise<Health>;
    stats(): Promise<Stats>;
    /** How many workers each pool or queue should have, and what limits it. */
    capacity(options?: CapacityOptions): Promise<Capacity>;
    series(options: { queue?: string; kind?: string; range?: SeriesRange }): Promise<Series>;
    kinds(): Promise<readonly KindView[]>;
    jobs(filter: JobFilter & { after?: string; limit?: number }): Promise<JobPage>;
    /** `after`: continue a capped count at its `next`; add the result to it. */
    count(filter: JobFilter & { after?: string }): Promise<Count>;
    /** The newest 10,000 dead jobs, grouped by error. */
    deadGroups(filter?: Pick<JobFilter, "kind" | "queue">): Promise<DeadGroups>;
    /** The tenants of one queue with their ready and running jobs, exactly; those with the most ready jobs first. Default limit 1,000. */
    tenants(queue: string, options?: { limit?: number }): Promise<QueueTenants>;
    /** The tenants of the next 10,000 ready jobs of a queue, or divided among all queues. */
    waitingTenants(of?: { queue?: string }): Promise<WaitingTenants>;
    job(id: string): Promise<JobDetail | undefined>;
    why(id: string): Promise<Explanation | undefined>;
    workers(): Promise<readonly WorkerView[]>;
    stops(): Promise<readonly WorkerStop[]>;
    slow(): Promise<readonly SlowJob[]>;
    /** Pauses, limits and admission, with live values and their latest changes. */
    controls(): Promise<Controls>;
    /** The keys of limits that contain a text, as in `controls`. */
    limitKeys(options?: { search?: string }): Promise<Pick<Controls, "keys" | "moreKeys" | "keysCapped">>;
    preview(action: BulkAction, filter: JobFilter): Promise<OperationPreview>;
    /** Start an operation. It runs in this process, a batch at a time, until it is finished or aborted. */
    begin(
      action: BulkAction,
      filter: JobFilter,
      options: { reason: string; actor: string; preview?: PreviewedSet },
    ): Promise<Operation>;
    operations(): Promise<readonly Operation[]>;
    operation(id: string): Promise<Operation | undefined>;
    abort(id: string): Promise<Operation | undefined>;
    close(): Promise<void>;
  };
