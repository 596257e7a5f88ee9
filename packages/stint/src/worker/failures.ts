import { types } from "node:util";
import { CrashedError, LeaseLostError } from "../errors.ts";
import type { Failure } from "../model/failure.ts";
import type { ClaimedJob } from "../model/job.ts";
import { isA } from "../model/safe-read.ts";
import type { JobState } from "../model/state.ts";
import type { Emitter } from "../runtime/emitter.ts";
import type { Rescued } from "../sql/rescue.ts";
import type { Attempt } from "./attempt.ts";
import type { FailedJob, WorkerEvents } from "./events.ts";

type Events = Emitter<WorkerEvents>;

/** An attempt failed, and its failure is recorded. */
export function reportFailed(
  events: Events,
  attempt: Attempt,
  ended: { outcome: "failed" | "timed-out" | "crashed"; state: JobState; ms: number; failure: Failure },
): void {
  const { outcome, state, ms, failure } = ended;
  const { verdict, aborted, thrown } = attempt;
  const error = outcome === "timed-out" && aborted !== undefined ? aborted : toError(thrown?.value, failure);
  const job = jobOf(attempt.job, attempt.traceId);
  events.emit("failed", { error, job, outcome, state, ms });
  const reason = (verdict.ends ? verdict.reason : null) ?? failure.message;
  if (state === "dead") events.emit("dead", { error, job, outcome, reason });
}

/** An attempt ended when another worker owned its job. */
export function reportLeaseLost(events: Events, attempt: Attempt): void {
  if (!events.hasListener("failed")) return;
  const { job, epoch } = attempt.job.fence;
  const cause = attempt.thrown?.value;
  const error = new LeaseLostError(job, epoch, isError(cause) ? { cause } : undefined);
  const ms = performance.now() - attempt.startedAt;
  const failed = jobOf(attempt.job, attempt.traceId);
  events.emit("failed", { error, job: failed, outcome: "lease-lost", state: null, ms });
}

/** The lease of an attempt, of any worker, ran out, and its job was rescued. */
export function reportRescued(events: Events, rescued: Rescued): void {
  events.emit("rescued", rescued);
  const { job: id, kind, queue, key, tenant, tags, attempt, worker, crashes, state } = rescued;
  const error = new CrashedError(id, worker, crashes);
  const job = { id, kind, queue, key, tenant, tags, attempt };
  events.emit("failed", { error, job, outcome: "crashed", state, ms: null });
  const reason = "worker died while running it";
  if (state === "dead") events.emit("dead", { error, job, outcome: "crashed", reason });
}

function jobOf({ fence, kind, queue, key, tenant, tags, attempt }: ClaimedJob, traceId?: string): FailedJob {
  const job = { id: fence.job, kind, queue, key, tenant, tags, attempt };
  return traceId === undefined ? job : { ...job, traceId };
}

/** The thrown value, if it is an error; otherwise an error that describes it. */
function toError(thrown: unknown, failure: Failure): Error {
  if (isError(thrown)) return thrown;
  const isObject = (typeof thrown === "object" && thrown !== null) || typeof thrown === "function";
  // Not as cause: an object may be anything, a revoked proxy included, and a logger would read it.
  const error = new Error(failure.message, isObject || thrown === undefined ? undefined : { cause: thrown });
  // Replaces the stack of this function, which threw nothing.
  error.stack = failure.stack ?? `${failure.class}: ${failure.message}`;
  return error;
}

/** Of any realm: Jest and `vm` have their own `Error`. */
function isError(value: unknown): value is Error {
  return isA(value, Error) || types.isNativeError(value);
}
