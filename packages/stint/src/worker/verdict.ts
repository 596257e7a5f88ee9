import {
  CancelledError,
  HandlerCrashedError,
  PermanentError,
  RateLimitedError,
  StoppingError,
  LeaseLostError,
  TimedOutError,
} from "../errors.ts";
import { nextDelayMs, type ResolvedBackoff } from "../model/backoff.ts";
import { longestMs, toMs } from "../model/duration.ts";
import { expiredReason } from "../model/expiry.ts";
import { minimalFailure, recordFailure, type Failure } from "../model/failure.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import { isOutcome, toOutcome } from "../model/outcome.ts";
import { crashedReason, exhaustedReason, invalidResultReason, permanentReason } from "../model/reason.ts";
import { isA } from "../model/safe-read.ts";
import type { Finish } from "../sql/finish.ts";
import type { Requeue } from "../sql/requeue.ts";
import type { Suspension } from "./suspension.ts";

/** How an attempt is to be recorded: the job ends, or is requeued. */
export type Verdict = ({ ends: true } & Finish) | ({ ends: false } & Requeue);

/** The longest pause that another system may ask for: a wrong header must not stop the jobs of a dependency for years. */
export const longestSlowMs = 86_400_000;

export type AttemptPolicy = {
  readonly maxAttempts: number;
  readonly maxCrashes: number;
  readonly backoff: ResolvedBackoff;
  readonly random: () => number;
  /** Whether jobs of the kind wait for dependencies: a `RateLimitedError` then spends no attempt. */
  readonly waitsForDependencies: boolean;
};

/** The handler returned. `result` is its result as JSON text, `plan` what it asked for with its outcome. */
export function returned(job: ClaimedJob, value: unknown, result: string | null, plan?: string): Verdict {
  const { fence } = job;
  if (!isOutcome(value)) return succeeded(fence, result, plan);
  const outcome = toOutcome(value);
  if (outcome.type === "continued") return succeeded(fence, null, plan);
  if (outcome.type === "children") {
    return {
      ends: false,
      fence,
      state: "parked",
      delayMs: null,
      countsAs: "interruption",
      park: { reason: "blocked", note: null, until: null, ...(plan === undefined ? {} : { plan }) },
      ending: { outcome: "parked" },
    };
  }
  if (outcome.type === "snooze") {
    return {
      ends: false,
      fence,
      state: "scheduled",
      delayMs: outcome.delayMs,
      countsAs: "interruption",
      ending: { outcome: "snoozed" },
    };
  }
  if (outcome.type === "park") {
    const { reason, note = null, until = null } = outcome;
    return {
      ends: false,
      fence,
      state: "parked",
      delayMs: until instanceof Date ? Math.max(0, until.getTime() - Date.now()) : until,
      countsAs: "interruption",
      park: { reason, note, until },
      ending: { outcome: "parked" },
    };
  }
  const reason = outcome.reason ?? "cancelled by its handler";
  return { ends: true, fence, state: "cancelled", result: null, reason, ending: { outcome: "cancelled" } };
}

/** Nearly every attempt ends here. Two shapes without a spread, which would cost more than the rest of the verdict. */
function succeeded(fence: Fence, result: string | null, plan: string | undefined): Verdict {
  if (plan === undefined)
    return { ends: true, fence, state: "succeeded", result, reason: null, ending: null };
  return { ends: true, fence, state: "succeeded", result, reason: null, ending: null, plan };
}

/** The handler sleeps, or waits for a signal. */
export function suspended(job: ClaimedJob, suspension: Suspension): Verdict {
  const { until } = suspension;
  return {
    ends: false,
    fence: job.fence,
    state: "parked",
    delayMs: until instanceof Date ? Math.max(0, until.getTime() - Date.now()) : until,
    countsAs: "interruption",
    suspend: suspension,
    ending: { outcome: "parked" },
  };
}

/**
 * The handler threw. Returns a verdict for any value: an attempt without one would keep its slot and its lease for ever.
 * `fault` is why the database failed its transaction, if it did. `aborted` is why its signal aborted, if it did: an error thrown by
 * a handler that was asked to stop is not its failure.
 */
export function threw(
  job: ClaimedJob,
  thrown: unknown,
  aborted: unknown,
  policy: AttemptPolicy,
  fault?: { readonly error: unknown },
): Verdict {
  try {
    return failed(job, thrown, aborted, policy, fault);
  } catch {
    return failed(job, new Error(minimalFailure().message), aborted, policy, fault);
  }
}

function failed(
  job: ClaimedJob,
  thrown: unknown,
  aborted: unknown,
  policy: AttemptPolicy,
  fault: { readonly error: unknown } | undefined,
): Verdict {
  const { fence } = job;
  if (aborted instanceof StoppingError || aborted instanceof LeaseLostError) return released(job);
  if (aborted instanceof CancelledError) {
    const ending = { outcome: "cancelled" as const, error: recordFailure(thrown) };
    return { ends: true, fence, state: "cancelled", result: null, reason: "cancelled while it ran", ending };
  }
  const timedOut = aborted instanceof TimedOutError;
  if (fault !== undefined && !timedOut && job.faults < mostFaults)
    return faulted(job, fault.error, policy.random);
  if (isA(thrown, HandlerCrashedError) && !timedOut) return crashed(job, thrown, policy);
  const error = recordFailure(timedOut ? aborted : thrown);
  const ending = { outcome: timedOut ? ("timed-out" as const) : ("failed" as const), error };

  if (isA(thrown, PermanentError) && !timedOut) {
    return { ends: true, fence, state: "dead", result: null, reason: permanentReason(error), ending };
  }
  const asked = timedOut || !policy.waitsForDependencies ? undefined : rateLimitOf(thrown);
  if (asked !== undefined) return rateLimited(fence, asked.ms, error);
  if (job.attempt >= policy.maxAttempts) {
    const reason = exhaustedReason(error, job.attempt, policy.maxAttempts);
    return { ends: true, fence, state: "dead", result: null, reason, ending };
  }
  const backoffMs = nextDelayMs(policy.backoff, job.attempt, error, policy.random);
  const delayMs = Math.max(backoffMs, rateLimitOf(thrown)?.ms ?? 0);
  return { ends: false, fence, state: "retrying", delayMs, countsAs: "attempt", ending };
}

/**
 * The handler did its work and returned a value that the result schema of its kind refuses. Dead at once: another attempt would
 * repeat the work and end in the same way.
 */
export function returnedInvalid(job: ClaimedJob, refusal: unknown): Verdict {
  const error = recordFailure(refusal);
  const reason = invalidResultReason(error);
  const ending = { outcome: "failed" as const, error };
  return { ends: true, fence: job.fence, state: "dead", result: null, reason, ending };
}

/** How often the database may fail a job's transactions before that counts as a failure of the job. */
const mostFaults = 20;
const faultBackoff: ResolvedBackoff = {
  type: "exponential",
  baseMs: 1_000,
  factor: 2,
  capMs: 60_000,
  jitter: "full",
};
const shortestFaultMs = 250;

/** The database failed the handler's transaction. No attempt is spent, and the job waits before it runs again. */
function faulted(job: ClaimedJob, fault: unknown, random: () => number): Verdict {
  const { fence, faults } = job;
  const error = recordFailure(fault);
  const delayMs = Math.max(shortestFaultMs, nextDelayMs(faultBackoff, faults + 1, error, random));
  const ending = { outcome: "released" as const, error };
  return { ends: false, fence, state: "retrying", delayMs, countsAs: "fault", ending };
}

/** An outside system refused the job, and all jobs that use it wait. No attempt is spent. */
function rateLimited(fence: Fence, askedMs: number, error: Failure): Verdict {
  const delayMs = Math.max(shortestFaultMs, Math.min(askedMs, longestSlowMs));
  const ending = { outcome: "released" as const, error };
  return { ends: false, fence, state: "retrying", delayMs, countsAs: "interruption", ending };
}

/**
 * The thread or process of its handler ended. No attempt is spent, and a crash is counted. Nothing else ran there, so the job needs no quarantine:
 * its last crash makes it dead.
 */
function crashed(job: ClaimedJob, thrown: HandlerCrashedError, policy: AttemptPolicy): Verdict {
  const { fence } = job;
  const crashes = job.crashes + 1;
  const error = recordFailure(thrown);
  const ending = { outcome: "crashed" as const, error };
  if (crashes >= policy.maxCrashes)
    return { ends: true, fence, state: "dead", result: null, reason: crashedReason(error, crashes), ending };
  const delayMs = nextDelayMs(policy.backoff, crashes, error, policy.random);
  return { ends: false, fence, state: "retrying", delayMs, countsAs: "crash", ending };
}

/** It was claimed in time, and has expired before it began. */
export function expired(job: ClaimedJob): Verdict {
  return {
    ends: true,
    fence: job.fence,
    state: "cancelled",
    result: null,
    reason: expiredReason,
    ending: { outcome: "cancelled" },
  };
}

/** Released with nothing spent, to its old place in the queue. */
export function released(job: ClaimedJob): { ends: false } & Requeue {
  return {
    ends: false,
    fence: job.fence,
    state: "ready",
    delayMs: null,
    countsAs: "interruption",
    ending: { outcome: "released" },
  };
}

/** The same verdict without any text that the database could refuse. */
export function withoutDetail(verdict: Verdict, failure: Failure): Verdict {
  if (verdict.ends && verdict.state === "succeeded") return { ...verdict, result: null };
  const ending = { outcome: verdict.ending?.outcome ?? ("failed" as const), error: failure };
  if (verdict.ends) return { ...verdict, result: null, reason: failure.message, ending };
  const { first: _, ...rest } = verdict;
  return { ...rest, ending };
}

/** The pause that a thrown value asks for, and of which dependency; undefined: it is not a `RateLimitedError`. Never throws. */
export function rateLimitOf(thrown: unknown): { ms: number; dependency: string | undefined } | undefined {
  if (!isA(thrown, RateLimitedError)) return undefined;
  return { ms: retryAfterMs(thrown), dependency: dependencyOf(thrown) };
}

function dependencyOf(error: RateLimitedError): string | undefined {
  try {
    return error.dependency;
  } catch {
    return undefined;
  }
}

// Never throws, like everything that records a failure: an invalid value in a user's error means no extra wait.
function retryAfterMs(error: RateLimitedError): number {
  try {
    const { retryAfter } = error;
    if (!(retryAfter instanceof Date)) return toMs(retryAfter, "retryAfter");
    return Math.min(Math.max(0, retryAfter.getTime() - Date.now()) || 0, longestMs);
  } catch {
    return 0;
  }
}
