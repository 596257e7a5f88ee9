import type { Row } from "../db/db.ts";
import type { Attempt, AttemptOutcome, ClaimedJob, Job } from "../model/job.ts";
import type { ParkReason } from "../model/park-reasons.ts";
import type { JobState } from "../model/state.ts";
import type { Failure } from "../model/failure.ts";
import { viewColumns } from "./job-columns.ts";

/** The columns of `stint.jobs`, the view every reading query selects from. */
export const jobColumns = viewColumns.join(", ");

/** What lists show of a job, too. */
export type JobHead = Pick<
  Job,
  | "id"
  | "kind"
  | "queue"
  | "state"
  | "priority"
  | "runAt"
  | "createdAt"
  | "finishedAt"
  | "attempts"
  | "maxAttempts"
  | "crashes"
  | "run"
  | "worker"
  | "claimedAt"
  | "key"
  | "tenant"
  | "tags"
  | "parkReason"
  | "reason"
>;

export function toJobHead(row: Row): JobHead {
  return {
    id: row["id"] as string,
    kind: row["kind"] as string,
    queue: row["queue"] as string,
    state: row["state"] as JobState,
    priority: row["priority"] as number,
    runAt: row["run_at"] as Date,
    createdAt: row["created_at"] as Date,
    finishedAt: row["finished_at"] as Date | null,
    attempts: row["attempts"] as number,
    maxAttempts: row["max_attempts"] as number | null,
    crashes: row["crashes"] as number,
    run: row["run"] as number,
    worker: row["worker"] as string | null,
    claimedAt: row["claimed_at"] as Date | null,
    key: row["key"] as string | null,
    tenant: row["tenant"] as string | null,
    tags: toTags(row["tags"]),
    parkReason: row["park_reason"] as ParkReason | null,
    reason: row["reason"] as string | null,
  };
}

export function toJob(row: Row): Job {
  return {
    ...toJobHead(row),
    interruptions: row["interruptions"] as number,
    faults: row["faults"] as number,
    epoch: Number(row["epoch"]),
    leaseUntil: row["lease_until"] as Date | null,
    cancelRequested: row["cancel_requested"] as boolean,
    parkUntil: row["park_until"] as Date | null,
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

// A success needs no entry of its own: the finished row already says when, where and by whom. It is read back
// here, so that plain jobs never pay for a log they do not need.
function toLog(row: Row): Attempt[] {
  const entries = (row["log"] as LogEntry[] | null) ?? [];
  const log = entries.map(toAttempt);
  if (row["state"] === "succeeded") {
    log.push({
      epoch: Number(row["epoch"]),
      worker: row["worker"] as string | null,
      startedAt: row["claimed_at"] as Date | null,
      endedAt: row["finished_at"] as Date,
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
 * From a statement that answers times and JSON as text: most handlers never look at a time, and a floor needs all its
 * digits. What is null is as it is for most jobs.
 */
export function toClaimedJob(
  row: Row,
  lease: { leaseId: string; kindLeaseMs: Readonly<Record<string, number>>; leaseMs: number },
): ClaimedJob {
  const kind = row["kind"] as string;
  const payload = row["payload"] as string;
  const runAt = row["run_at"] as string;
  const { epoch, lease_ms: leaseMs, timeout_ms: timeoutMs, meta } = row;
  return {
    fence: {
      job: row["id"] as string,
      epoch: epoch === null ? 1 : Number(epoch),
      leaseId: lease.leaseId,
    },
    kind,
    queue: row["queue"] as string,
    priority: (row["priority"] as number | null) ?? 0,
    runAt,
    createdAt: (row["created_at"] as string | null) ?? runAt,
    attempt: (row["attempts"] as number | null) ?? 1,
    maxAttempts: row["max_attempts"] as number | null,
    maxCrashes: row["max_crashes"] as number | null,
    crashes: (row["crashes"] as number | null) ?? 0,
    faults: (row["faults"] as number | null) ?? 0,
    run: (row["run"] as number | null) ?? 1,
    timeoutMs: timeoutMs === null ? null : Number(timeoutMs),
    leaseMs: leaseMs === null ? (lease.kindLeaseMs[kind] ?? lease.leaseMs) : Number(leaseMs),
    key: row["key"] as string | null,
    tenant: row["tenant"] as string | null,
    tags: toTags(row["tags"]),
    meta: meta === null ? nothing : toMeta(JSON.parse(meta as string)),
    payload: JSON.parse(payload) as unknown,
    weight: payload.length,
  };
}

/** Whatever is in the column: reading a job must not depend on who wrote it. */
function toMeta(value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : nothing;
}

/** The same for tags: an array in Postgres may hold nulls and further arrays. */
function toTags(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return none;
  return value.every(isText) ? value : value.flat(6).filter(isText);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

const none: readonly string[] = Object.freeze([]);
const nothing: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * Priority, then run time, then id: the order of every claim. The times of one answer are in one format and zone, in
 * which their texts sort as they do.
 */
export function byClaimOrder(a: ClaimedJob, b: ClaimedJob): number {
  return a.priority - b.priority || compare(a.runAt, b.runAt) || compare(a.fence.job, b.fence.job);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
