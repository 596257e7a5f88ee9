import type { AttemptOutcome } from "#stint/model/job.js";
import type { JobState } from "#stint/model/state.js";

/** A moment: virtual milliseconds, then the order of the commands that set it, since real time passes between them. */
export type Moment = readonly [ms: number, order: number];

export type ModelJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  priority: number;
  readonly maxCrashes: number | null;
  readonly createdAt: Moment;
  payload: number;
  state: JobState;
  runAt: Moment;
  attempts: number;
  crashes: number;
  interruptions: number;
  epoch: number;
  run: number;
  leaseId: string | null;
  leaseUntil: Moment | null;
  worker: string | null;
  cancelRequested: boolean;
  /** Given with the newest request to cancel it. */
  cancelReason: string | null;
  dedupeKey: string | null;
  dedupeUntil: "started" | "finished" | null;
  parkReason: string | null;
  /** A worker lifts it at its `runAt`. */
  parkTimed: boolean;
  reason: string | null;
  outcomes: AttemptOutcome[];
  /** What `again` planned. `made`: the next run exists. `stale`: the attempt that planned it did not end the job. */
  plan: { next: NewJob; runAt: Moment; stale: boolean; made: boolean } | null;
};

export type NewJob = {
  id: string;
  kind: string;
  queue: string;
  priority: number;
  maxCrashes: number | null;
  payload: number;
  delayMs: number | null;
  dedupe: {
    key: string;
    until: "started" | "finished" | number;
    replace: "payload" | "run_at" | "both" | null;
    maxWaitMs: number | null;
  } | null;
};

export const unparked = { parkReason: null, parkTimed: false, reason: null };

export const untouched = {
  attempts: 0,
  crashes: 0,
  interruptions: 0,
  epoch: 0,
  run: 1,
  leaseId: null,
  leaseUntil: null,
  worker: null,
  cancelRequested: false,
  cancelReason: null,
  plan: null,
  ...unparked,
};

export function isEnded(job: ModelJob): boolean {
  return job.state === "succeeded" || job.state === "dead" || job.state === "cancelled";
}

export function log(job: ModelJob, outcome: AttemptOutcome): void {
  if (job.outcomes.length >= 20) job.outcomes.splice(1, 1);
  job.outcomes.push(outcome);
}

/** The order in which every batch is written, so that two batches with the same keys cannot deadlock. */
export function byKey(a: NewJob, b: NewJob): number {
  return compare(sortKey(a), sortKey(b));
}

function sortKey({ kind, dedupe, id }: NewJob): string {
  return `${kind} ${dedupe?.key ?? "~"} ${id}`;
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function before(a: Moment, b: Moment): number {
  return a[0] - b[0] || a[1] - b[1];
}

export function earlier(a: Moment, b: Moment): Moment {
  return before(a, b) <= 0 ? a : b;
}

export function later(a: Moment, b: Moment): Moment {
  return before(a, b) >= 0 ? a : b;
}
