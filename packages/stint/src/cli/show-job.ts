import { formatMs } from "../model/figures.ts";
import { attemptNumbers } from "../model/attempt-number.ts";
import type { Attempt, Job } from "../model/job.ts";
import { replaysIn, type AuditEntry } from "../sql/audit.ts";
import { age, attemptsText, errorText, stateText } from "./job-text.ts";
import { say, paint, toJson, type Output, type Piece } from "./output.ts";
import { pairs, table, type Column } from "./table.ts";

const mostStackLines = 12;

/** One job on a terminal, top to bottom: what it is, how it stands, what it holds, what happened to it, who did something to it. */
export function showJob(out: Output, job: Job, audit: readonly AuditEntry[]): void {
  pairs(out, [
    ["Job", paint("bold", job.id)],
    ["Kind", job.kind],
    ["Queue", job.queue],
    ["State", stateText(job.state)],
    ["Park reason", job.parkReason],
    ["Parked until", moment(job.parkUntil)],
    ["Reason", job.reason],
    ["Key", job.key],
    ["Tenant", job.tenant],
    ["Tags", job.tags.join(", ")],
    ["Priority", job.priority],
    ["Attempts", attemptsText(job)],
    ["Crashes", job.crashes === 0 ? "" : job.crashes],
    ["Interruptions", job.interruptions === 0 ? "" : job.interruptions],
    ["Expires", job.expiresAt?.toISOString() ?? ""],
    ["Database faults", job.faults === 0 ? "" : job.faults],
    ["Epoch", job.epoch],
    ["Run", job.run],
    ["Created", moment(job.createdAt)],
    ["Due", moment(job.runAt)],
    ["Claimed", job.state === "running" ? moment(job.claimedAt) : ""],
    ["Worker", job.worker],
    ["Lease until", job.state === "running" ? moment(job.leaseUntil) : ""],
    ["Cancel", job.cancelRequested ? cancelText(audit) : ""],
    ["Finished", moment(job.finishedAt)],
  ]);
  section(out, "Payload", job.payload);
  if (job.result !== null) section(out, "Result", job.result);
  if (Object.keys(job.meta).length > 0) section(out, "Meta", job.meta);
  if (job.log.length > 0) {
    out.line(say``);
    table(out, attemptColumns(attemptNumbers(job, replaysIn(audit))), job.log);
  }
  if (audit.length > 0) {
    out.line(say``);
    table(out, auditColumns, audit);
  }
  const failed = job.log.findLast((attempt) => attempt.error !== undefined);
  if (failed?.error?.stack !== undefined) showStack(out, failed.error.stack);
}

const attemptColumns = (numbers: Readonly<Record<number, number>>): readonly Column<Attempt>[] => [
  { title: "ATTEMPT", cell: (attempt) => numbers[attempt.epoch] ?? "", align: "right" },
  { title: "EPOCH", cell: (attempt) => attempt.epoch, align: "right" },
  { title: "OUTCOME", cell: outcomeText },
  { title: "STARTED", cell: (attempt) => age(attempt.startedAt) },
  { title: "TOOK", cell: took, align: "right" },
  { title: "WORKER", cell: (attempt) => attempt.worker ?? "", most: 48 },
  { title: "ERROR", cell: (attempt) => errorText(attempt.error), most: Number.POSITIVE_INFINITY },
];

const auditColumns: readonly Column<AuditEntry>[] = [
  { title: "ACTION", cell: (entry) => entry.action },
  { title: "WHEN", cell: (entry) => age(entry.at) },
  { title: "WHO", cell: (entry) => entry.actor, most: 48 },
  { title: "REASON", cell: (entry) => entry.reason ?? "", most: Number.POSITIVE_INFINITY },
];

/** A cancel that was asked for while the job runs. Its audit row may have been pruned. */
function cancelText(audit: readonly AuditEntry[]): string {
  const asked = audit.findLast((entry) => entry.action === "cancel");
  return asked === undefined ? "asked for" : `asked for ${moment(asked.at)}`;
}

function outcomeText({ outcome }: Attempt): Piece {
  if (outcome === "succeeded") return paint("green", outcome);
  return outcome === "failed" || outcome === "crashed" || outcome === "timed-out"
    ? paint("red", outcome)
    : outcome;
}

function took({ startedAt, endedAt }: Attempt): string {
  return startedAt === null ? "" : formatMs(endedAt.getTime() - startedAt.getTime());
}

function moment(date: Date | null): string {
  return date === null ? "" : `${date.toISOString()} (${age(date)})`;
}

function section(out: Output, title: string, value: unknown): void {
  out.line(say``);
  out.line(say`${paint("dim", title)}`);
  for (const line of toJson(value, 2).split("\n")) out.line(say`  ${line}`);
}

function showStack(out: Output, stack: string): void {
  const lines = stack.split("\n");
  out.line(say``);
  out.line(say`${paint("dim", "Last error")}`);
  for (const line of lines.slice(0, mostStackLines)) out.line(say`  ${line}`);
  if (lines.length > mostStackLines) out.line(say`  ${paint("dim", "… the rest is in --json")}`);
}
