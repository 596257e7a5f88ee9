import type { Row } from "../db/db.ts";
import type { Attempt, AttemptOutcome, ClaimedJob, Job } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import type { Failure } from "../model/failure.ts";

/** The columns of `stint.jobs`, the view every reading query selects from. */
export const jobColumns = `
  id, kind, queue, state, priority, run_at, created_at, finished_at,
  attempts, max_attempts, crashes, interruptions, epoch, run,
  worker, claimed_at, lease_until, cancel_requested, key, tenant, tags, meta, reason, payload, result, log`;

export function toJob(row: Row): Job {
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
    interruptions: row["interruptions"] as number,
    epoch: Number(row["epoch"]),
    run: row["run"] as number,
    worker: row["worker"] as string | null,
    claimedAt: row["claimed_at"] as Date | null,
    leaseUntil: row["lease_until"] as Date | null,
    cancelRequested: row["cancel_requested"] as boolean,
    key: row["key"] as string | null,
    tenant: row["tenant"] as string | null,
    tags: (row["tags"] as string[] | null) ?? [],
    meta: (row["meta"] as Record<string, unknown> | null) ?? {},
    reason: row["reason"] as string | null,
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

export function toClaimedJob(row: Row): ClaimedJob {
  return {
    fence: { job: row["id"] as string, epoch: Number(row["epoch"]), leaseId: row["lease_id"] as string },
    kind: row["kind"] as string,
    queue: row["queue"] as string,
    priority: row["priority"] as number,
    runAt: row["run_at"] as Date,
    createdAt: row["created_at"] as Date,
    attempt: row["attempts"] as number,
    maxAttempts: row["max_attempts"] as number | null,
    crashes: row["crashes"] as number,
    run: row["run"] as number,
    timeoutMs: row["timeout_ms"] === null ? null : Number(row["timeout_ms"]),
    leaseMs: Number(row["lease_ms"]),
    key: row["key"] as string | null,
    tenant: row["tenant"] as string | null,
    tags: (row["tags"] as string[] | null) ?? [],
    meta: (row["meta"] as Record<string, unknown> | null) ?? {},
    payload: row["payload"],
  };
}

/** Priority, then run time, then id: the order of every claim. */
export function byClaimOrder(a: ClaimedJob, b: ClaimedJob): number {
  return (
    a.priority - b.priority || a.runAt.getTime() - b.runAt.getTime() || (a.fence.job < b.fence.job ? -1 : 1)
  );
}
