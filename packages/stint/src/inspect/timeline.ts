import { formatMs } from "../model/figures.ts";
import type { Attempt, Job } from "../model/job.ts";
import type { AuditEntry } from "../sql/audit.ts";
import type { CloseJob } from "../sql/explain-job.ts";
import type { TimelineStep } from "./types.ts";

/** The timeline of a job, oldest first, from its row and its audit. */
export function timeline(
  seen: Pick<CloseJob, "job" | "leaseId" | "leases">,
  audit: readonly AuditEntry[],
): TimelineStep[] {
  const { job, leaseId, leases } = seen;
  const steps: TimelineStep[] = [
    step(job.createdAt, "enqueued", `Enqueued to ${job.queue}`, { detail: keyText(job) }),
    // Before the attempts: a replayed job may be claimed in the same millisecond.
    ...audit.flatMap(auditStep),
    ...job.log.flatMap((attempt, index) => [
      ...claimedStep(attempt, leases.get(attempt.epoch) ?? (index === job.log.length - 1 ? leaseId : null)),
      endedStep(attempt),
    ]),
    ...nowSteps(job, leaseId),
  ];
  // A stable sort keeps steps of the same time in causal order.
  return steps.sort((a, b) => a.at.getTime() - b.at.getTime());
}

type More = Partial<Pick<TimelineStep, "detail" | "epoch" | "worker" | "durationMs">>;

function step(at: Date, what: TimelineStep["what"], title: string, more: More = {}): TimelineStep {
  return { at, what, title, detail: null, epoch: null, worker: null, durationMs: null, ...more };
}

function keyText({ key }: Job): string | null {
  return key === null ? null : `key ${key}`;
}

function leaseText(leaseId: string | null | undefined): string | null {
  return leaseId === null || leaseId === undefined ? null : `lease ${leaseId}`;
}

function claimedStep({ startedAt, epoch, worker }: Attempt, leaseId: string | null): TimelineStep[] {
  if (startedAt === null) return [];
  const title = `Claimed by ${worker ?? "a worker"}`;
  return [step(startedAt, "claimed", title, { epoch, worker, detail: leaseText(leaseId) })];
}

const endings: Record<Attempt["outcome"], string> = {
  succeeded: "Attempt succeeded",
  failed: "Attempt failed",
  "timed-out": "Attempt timed out",
  crashed: "Rescued: the worker died or stopped responding",
  released: "Released by its worker, no attempt spent",
  snoozed: "Snoozed",
  parked: "Parked",
  cancelled: "Attempt ended: the job was cancelled",
};

function endedStep({ startedAt, endedAt, epoch, worker, outcome, error }: Attempt): TimelineStep {
  const title =
    outcome === "crashed" && error !== undefined ? "Attempt ended: its handler crashed" : endings[outcome];
  return step(endedAt, "attempt-ended", title, {
    epoch,
    worker,
    durationMs: startedAt === null ? null : endedAt.getTime() - startedAt.getTime(),
    detail: error === undefined ? null : `${error.class}: ${error.message}`,
  });
}

function auditStep({ at, actor, action, reason }: AuditEntry): TimelineStep[] {
  const detail = reason;
  switch (action) {
    case "replay":
      return [step(at, "replayed", `Replayed by ${actor}`, { detail })];
    case "cancel":
      return [step(at, "cancelled", `Cancelled by ${actor}`, { detail })];
    case "run-now":
      return [step(at, "run-now", `Run now, requested by ${actor}`, { detail })];
    default:
      return [];
  }
}

/** The current step, or the end. */
function nowSteps(job: Job, leaseId: string | null): TimelineStep[] {
  const { state, runAt, claimedAt, finishedAt, epoch, worker, reason, parkReason } = job;
  switch (state) {
    case "scheduled":
      return [step(runAt, "due", "Due")];
    case "retrying":
      return [step(runAt, "due", "Due for its next attempt")];
    case "ready":
      return [step(runAt, "waiting", "Ready, waiting to be claimed", { detail: waitText(job) })];
    case "parked":
      return [step(runAt, "waiting", `Parked: ${parkReason ?? "no reason was given"}`)];
    case "running":
      return [
        step(claimedAt ?? runAt, "claimed", `Claimed by ${worker ?? "a worker"}, runs`, {
          epoch,
          worker,
          detail: leaseText(leaseId),
        }),
      ];
    case "succeeded":
    case "dead":
    case "cancelled":
      return [step(finishedAt ?? runAt, "ended", ended[state], { detail: reason })];
    default:
      return state satisfies never;
  }
}

const ended = { succeeded: "Succeeded", dead: "Dead", cancelled: "Cancelled" };

/** A delayed job was due some time after its enqueue. */
function waitText({ runAt, createdAt }: Job): string | null {
  const ms = runAt.getTime() - createdAt.getTime();
  return ms < 1_000 ? null : `${formatMs(ms)} after it was enqueued`;
}
