import type { Row } from "../db/db.ts";
import {
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  orNull,
  text,
  textOrNull,
  time,
  timeOrNull,
  unchecked,
} from "../db/row.ts";
import type { Attempt, AttemptOutcome, ClaimedJob, Job } from "../model/job.ts";
import type { ParkReason } from "../model/park-reasons.ts";
import { states } from "../model/state.ts";
import type { Failure } from "../model/failure.ts";
import { viewColumns } from "./job-columns.ts";

/** The columns of `stint.jobs`, the view every reading query selects from. */
export const jobColumns = viewColumns.join(", ");

/** The part of a job that lists show. */
export type JobHead = Omit<
  Job,
  | "interruptions"
  | "faults"
  | "epoch"
  | "leaseUntil"
  | "cancelRequested"
  | "parkUntil"
  | "expiresAt"
  | "meta"
  | "payload"
  | "result"
  | "log"
>;

export const jobState = oneOf(states);
export const jobStateOrNull = orNull(jobState);

export function toJobHead(row: Row): JobHead {
  return {
    id: text(row, "id"),
    kind: text(row, "kind"),
    queue: text(row, "queue"),
    state: jobState(row, "state"),
    priority: number(row, "priority"),
    runAt: time(row, "run_at"),
    createdAt: time(row, "created_at"),
    finishedAt: timeOrNull(row, "finished_at"),
    attempts: number(row, "attempts"),
    maxAttempts: numberOrNull(row, "max_attempts"),
    crashes: number(row, "crashes"),
    run: number(row, "run"),
    worker: textOrNull(row, "worker"),
    claimedAt: timeOrNull(row, "claimed_at"),
    key: textOrNull(row, "key"),
    tenant: textOrNull(row, "tenant"),
    tags: toTags(row["tags"]),
    // Not checked against the list: a newer release may have more reasons.
    parkReason: textOrNull(row, "park_reason") as ParkReason | null,
    reason: textOrNull(row, "reason"),
  };
}

export function toJob(row: Row): Job {
  return {
    ...toJobHead(row),
    interruptions: number(row, "interruptions"),
    faults: number(row, "faults"),
    epoch: number(row, "epoch"),
    leaseUntil: timeOrNull(row, "lease_until"),
    cancelRequested: flag(row, "cancel_requested"),
    parkUntil: timeOrNull(row, "park_until"),
    expiresAt: timeOrNull(row, "expires_at"),
    meta: toMeta(row["meta"]),
    payload: row["payload"],
    result: row["result"] ?? null,
    log: toLog(row),
  };
}

type LogEntry = {
  epoch: number;
  worker: string | null;
  startedAt: string | null;
  endedAt: string;
  outcome: AttemptOutcome;
  error?: Failure;
};

const logOrNull = orNull(json<LogEntry[]>);

// A success has no log entry: the finished row has its time and worker. The entry is built here, so that plain jobs do not pay for
// a log they do not need.
function toLog(row: Row): Attempt[] {
  const entries = logOrNull(row, "log") ?? [];
  const log = entries.map(toAttempt);
  // A job that `stint.complete` ended was not running.
  if (row["state"] === "succeeded" && row["lease_id"] !== null) {
    log.push({
      epoch: number(row, "epoch"),
      worker: textOrNull(row, "worker"),
      startedAt: timeOrNull(row, "claimed_at"),
      endedAt: time(row, "finished_at"),
      outcome: "succeeded",
    });
  }
  return log;
}

function toAttempt({ epoch, worker, startedAt, endedAt, outcome, error }: LogEntry): Attempt {
  const attempt: Attempt = {
    epoch,
    worker,
    startedAt: startedAt === null ? null : new Date(startedAt),
    endedAt: new Date(endedAt),
    outcome,
  };
  return error === undefined ? attempt : { ...attempt, error };
}

/**
 * A row of a claim. Times and JSON are text: most handlers never read a time, and a floor needs all its digits. `rare` is null where
 * the columns in it have the values that most jobs have, and has only `limits` where that alone differs.
 */
type ClaimedRow = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly run_at: string;
  readonly payload: string;
  readonly rare: string | null;
};

type RareColumns = {
  readonly epoch: number;
  readonly priority: number;
  readonly created_at: string;
  readonly attempts: number;
  readonly crashes: number;
  readonly faults: number;
  readonly run: number;
  readonly lease_ms: number | null;
  readonly timeout_ms: number | null;
  readonly expires_at: string | null;
  readonly max_attempts: number | null;
  readonly max_crashes: number | null;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly tags: unknown;
  readonly meta: unknown;
  readonly limits: readonly string[] | null;
};

/**
 * The columns are not checked: at tens of thousands of jobs a second that would show, and a claim must not fail on one row. Texts that are equal in
 * the last row are taken from there: the jobs that wait keep one text instead of a thousand.
 */
export function toClaimedJob(
  unread: Row,
  lease: { leaseId: string; kindLeaseMs: Readonly<Record<string, number>>; leaseMs: number },
  last?: ClaimedJob,
): ClaimedJob {
  const row = unchecked<ClaimedRow>(unread);
  const kind = row.kind === last?.kind ? last.kind : row.kind;
  const queue = row.queue === last?.queue ? last.queue : row.queue;
  const runAt = row.run_at === last?.runAt ? last.runAt : row.run_at;
  const rare = row.rare === null ? undefined : (JSON.parse(row.rare) as Partial<RareColumns>);
  return {
    fence: { job: row.id, epoch: rare?.epoch ?? 1, leaseId: lease.leaseId },
    kind,
    queue,
    priority: rare?.priority ?? 0,
    runAt,
    createdAt: rare?.created_at ?? runAt,
    attempt: rare?.attempts ?? 1,
    maxAttempts: rare?.max_attempts ?? null,
    maxCrashes: rare?.max_crashes ?? null,
    crashes: rare?.crashes ?? 0,
    faults: rare?.faults ?? 0,
    run: rare?.run ?? 1,
    timeoutMs: rare?.timeout_ms ?? null,
    expiresAtMs: rare?.expires_at == null ? null : Date.parse(rare.expires_at),
    leaseMs: rare?.lease_ms ?? lease.kindLeaseMs[kind] ?? lease.leaseMs,
    key: rare?.key ?? null,
    tenant: rare?.tenant ?? null,
    tags: rare === undefined ? none : toTags(rare.tags),
    meta: rare === undefined ? nothing : toMeta(rare.meta),
    limits: rare?.limits ?? null,
    payload: row.payload,
  };
}

/** Accepts any value: reading a job must not fail because of what a client wrote. */
function toMeta(value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : nothing;
}

/** The same for tags: a Postgres array may contain nulls and nested arrays. */
export function toTags(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return none;
  return value.every(isText) ? value : value.flat(6).filter(isText);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

const none: readonly string[] = Object.freeze([]);
const nothing: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * The order of every claim: priority, run time, id. The times of one result have the same format and zone, so their texts sort by
 * time.
 */
export function byClaimOrder(a: ClaimedJob, b: ClaimedJob): number {
  return a.priority - b.priority || compare(a.runAt, b.runAt) || compare(a.fence.job, b.fence.job);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
