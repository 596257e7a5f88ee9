/**
 * What can be seen of an installation: the shapes that the dashboard, `stint top` and the other commands show. Durations are
 * milliseconds, rates are per second. Every figure is a tally or bounded; nothing here is found by counting a table.
 */
import type { Job } from "../model/job.ts";
import type { TargetSource } from "../model/queue-settings.ts";
import type { JobState } from "../model/state.ts";
import type { Arrivals } from "../sql/arrivals.ts";
import type { AuditEntry } from "../sql/audit.ts";
import type { DeadGroup } from "../sql/dead-groups.ts";
import type { FoundJob } from "../sql/search.ts";
import type { WaitingTenant } from "../sql/waiting-tenants.ts";
import type { LiveWorker } from "../sql/workers.ts";

/** How many, up to a limit. `capped`: there are at least so many, and counting continues below `next`, where that is given. */
export type Count = { readonly count: number; readonly capped: boolean; readonly next?: string };

/** How many jobs are in each state that is not the end of them, and how many are dead. */
export type Depth = {
  readonly scheduled: number;
  readonly ready: number;
  readonly running: number;
  readonly retrying: number;
  readonly parked: number;
  readonly dead: number;
};

export const depthStates = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
  "dead",
] as const satisfies readonly (keyof Depth)[];

/** What happened per second, over the last minute unless said otherwise. */
export type Rates = {
  readonly arrived: number;
  readonly claimed: number;
  /** Jobs that ended. What is retried or snoozed has not. */
  readonly ended: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly retried: number;
  readonly dead: number;
};

export type Percentiles = {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
};

/** One row of the Health screen. */
export type QueueHealth = {
  readonly queue: string;
  readonly depth: Depth;
  /** How long the oldest ready job has been waiting past its time; null when none waits. */
  readonly oldestReadyMs: number | null;
  /** The age it should stay below: the queue's own, else that of the longest pattern, else five minutes. */
  readonly targetMs: number;
  /** Whether that is the default, declared in code or a live change, and the name or pattern it was set for; null: none. */
  readonly targetFrom: { readonly source: TargetSource; readonly setFor: string | null };
  /**
   * When the oldest ready job will pass the target if things go on as they do: 0 if it has, null if it will not. Rows are sorted by
   * this, soonest first.
   */
  readonly breachInMs: number | null;
  readonly rates: Rates;
  /** How long the ready jobs will take at the rate of the last minute; null when none end, or nobody serves some of them. */
  readonly drainMs: number | null;
  /** Retries per ended attempt, 0 to 1, over the last 10 minutes; null when none ended. */
  readonly retryShare: number | null;
  readonly oldestDeadMs: number | null;
  readonly wait: Percentiles;
  readonly run: Percentiles;
  /**
   * `total`: of the workers that serve it and do not drain. `busy`: how many of these run a job. `ahead`: jobs that were claimed and
   * wait for a slot; they count as running, but run nowhere yet.
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

export type Health = {
  readonly at: Date;
  readonly queues: readonly QueueHealth[];
  readonly total: Depth;
  readonly workers: number;
  /** Running jobs beyond what is normal for their kind. */
  readonly slow: number;
  readonly unserved: readonly UnservedKind[];
};

export type UnservedKind = { readonly kind: string; readonly queue: string; readonly oldestReadyMs: number };

/** One point of a chart; counts are of its whole step. */
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
   * Depth at the end of the step, as last sampled by then, which is done where something changed; null before the first sample.
   * Of all queues, where very many changed very often, as of the wider step (a minute, ten minutes, an hour) that ended last.
   */
  readonly ready: number | null;
  readonly running: number | null;
  /**
   * How old the oldest ready job became: its age at the end of the step, or the longest wait of an attempt that began within it. Null:
   * no job waited.
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
  /** Steps that end later are not over, or their last counts are on their way: drawn as they are, they would look like a fall. */
  readonly completeUntil: Date;
  /** Oldest first, one for every step, also for those in which nothing happened. */
  readonly points: readonly SeriesPoint[];
};

/** A kind and what is normal for it, over the last day of its life. */
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
  /** Said only where the lease should be another one, and why. */
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
  /** That of a group of dead jobs: of one kind, and died of the same thing. */
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

/** A job as lists show it: no payload, no result. */
export type JobRow = FoundJob;

export type JobPage = {
  readonly jobs: readonly JobRow[];
  /** Hand it back as `after` for the next page. */
  readonly next: string | null;
  /**
   * True: the search stopped at its limit of time or rows before the page was full. Ask again with `next` as `after`: only a page that is
   * not partial shows that nothing else matches.
   */
  readonly partial: boolean;
  /** On a partial page: how many jobs were searched for it, and about how many there are to search in all. */
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
  /** Which attempt each entry of `job.log` was, by its epoch: the number that its handler saw. */
  readonly attemptOfEpoch: Readonly<Record<number, number>>;
  readonly timeline: readonly TimelineStep[];
  readonly audit: readonly AuditEntry[];
  readonly why: Explanation;
  /** What is normal for its kind. */
  readonly run: Percentiles;
  readonly traceId: string | null;
};

/** Why a job is not running, or how it runs, in plain words. */
export type Explanation = {
  /** One sentence. */
  readonly summary: string;
  /** Most important first. `blocks`: this alone keeps it from running now. */
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
  readonly silentMs: number;
  /** It missed two reports: killed, frozen or disconnected. */
  readonly unresponsive: boolean;
  /** Its version is not the newest that runs. */
  readonly behind: boolean;
};

export type SlowJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly worker: string | null;
  readonly attempt: number;
  readonly runningMs: number;
  /** The 95th percentile of its kind; null while too few have ended to know. */
  readonly usualMs: number | null;
  readonly because: "beyond-normal" | "near-lease" | "near-timeout";
  readonly text: string;
};

export type BulkAction = "cancel" | "run-now" | "replay";

/** A piece of bulk work: what it will touch is fixed when it is made. */
export type Operation = {
  readonly id: string;
  readonly action: BulkAction;
  readonly filter: JobFilter;
  readonly reason: string;
  readonly actor: string;
  readonly state: "running" | "finished" | "aborted" | "abandoned";
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  /** How many matched when it was made. */
  readonly matched: Count;
  readonly done: number;
  /** Those that were found and left alone: they came or changed after the preview, or another session held them. */
  readonly skipped: number;
  /** Of those that matched, how many had changed before their turn came. Null while it runs, and where they were not all counted. */
  readonly changed: number | null;
  /** Why it was abandoned, where that is known. */
  readonly error?: string;
};

export type OperationPreview = {
  readonly matched: Count;
  readonly sample: readonly JobRow[];
  /** The moment of the preview, by the database's clock. Hand it to `begin`: jobs that match only later are left alone. */
  readonly asOf: string;
};

/** What a person looked at before they began. */
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
  /** Jobs that came, enqueued or replayed. Begins at zero again where a name was long unused among more than a thousand. */
  readonly arrivals: readonly Arrivals[];
  /** Tenants with most ended attempts in the last hour. */
  readonly topTenants: readonly { readonly tenant: string; readonly ended: number; readonly runMs: number }[];
};

/** What the dead died of. */
export type DeadGroups = {
  /** The largest first, at most a hundred. */
  readonly groups: readonly DeadGroup[];
  /** Dead jobs in further groups. */
  readonly others: number;
  /** How many dead jobs were looked at; capped: only these, the newest, were. */
  readonly of: Count;
};

/** Whose jobs are next. */
export type WaitingTenants = {
  /** Most first, at most twenty. */
  readonly tenants: readonly WaitingTenant[];
  /** How many ready jobs were looked at, without a tenant or with one; capped: only these, the next ones of each queue, were. */
  readonly of: Count;
};

/**
 * Looks at an installation, on connections of its own, each statement within a time limit. Made by `stint.inspector()`.
 */
export type Inspector = {
  /** The schema of the installation. */
  readonly schema: string;
  health(): Promise<Health>;
  stats(): Promise<Stats>;
  series(options: { queue?: string; kind?: string; range?: SeriesRange }): Promise<Series>;
  kinds(): Promise<readonly KindView[]>;
  jobs(filter: JobFilter & { after?: string; limit?: number }): Promise<JobPage>;
  /** `after`: continue a count that was capped, below its `next`; add what it returns. */
  count(filter: JobFilter & { after?: string }): Promise<Count>;
  /** What the newest 10,000 dead jobs died of. */
  deadGroups(filter?: Pick<JobFilter, "kind" | "queue">): Promise<DeadGroups>;
  /** Whose jobs wait among the next 10,000 that are ready, shared out among the queues. */
  waitingTenants(): Promise<WaitingTenants>;
  job(id: string): Promise<JobDetail | undefined>;
  why(id: string): Promise<Explanation | undefined>;
  workers(): Promise<readonly WorkerView[]>;
  slow(): Promise<readonly SlowJob[]>;
  preview(action: BulkAction, filter: JobFilter): Promise<OperationPreview>;
  /** Begin it. It goes on in this process, a batch at a time, until it is done or aborted. */
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
