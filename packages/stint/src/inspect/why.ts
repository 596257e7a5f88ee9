import { command } from "../model/command.ts";
import { formatMs } from "../model/figures.ts";
import type { Job } from "../model/job.ts";
import { isUnresponsive } from "../model/liveness.ts";
import { parkRules, type ParkRule } from "../model/park-reasons.ts";
import { isBeyondNormal, isNearTimeout, isStalled } from "../model/slow.ts";
import { blocks, notes, some, type Facts, type Finding } from "./findings.ts";
import type { Explanation } from "./types.ts";
import { leftInFlow, waitsForOthers } from "./why-flow.ts";
import { deferFindings, expiryFindings, limitFindings, pauseFindings } from "./why-held.ts";
import { whyReady } from "./why-ready.ts";

/** An automatic step that is later than this is reported. */
const soonMs = 10_000;

/** Why a job does not run, or how it runs or ended, in plain words. */
export function explain(facts: Facts): Explanation {
  const { state } = facts.job;
  switch (state) {
    case "scheduled":
      return whyScheduled(facts);
    case "retrying":
      return whyRetrying(facts);
    case "ready":
      return whyReady(facts);
    case "running":
      return whyRunning(facts);
    case "parked":
      return whyParked(facts);
    case "dead":
      return whyDead(facts);
    case "cancelled":
      return whyCancelled(facts);
    case "succeeded":
      return whySucceeded(facts);
    default:
      return state satisfies never;
  }
}

function whyScheduled(facts: Facts): Explanation {
  const { job, at } = facts;
  const snoozed = job.log.at(-1)?.outcome === "snoozed";
  const text = `It is ${snoozed ? "snoozed" : "scheduled"} until ${when(job.runAt, at)}.`;
  return {
    summary: text,
    findings: [...waitsForItsTime(facts), ...deferFindings(facts), ...expiryFindings(facts)],
  };
}

function whyRetrying(facts: Facts): Explanation {
  const { job, at } = facts;
  const of = job.maxAttempts === null ? "" : ` of ${job.maxAttempts}`;
  const error = lastError(job);
  return {
    summary: `Attempt ${job.attempts}${of} failed${error === null ? "" : ` with ${error}`}; the next is due at ${when(job.runAt, at)}.`,
    findings: [...waitsForItsTime(facts), ...expiryFindings(facts)],
  };
}

function waitsForItsTime({ schema, job, at }: Facts): Finding[] {
  const lateMs = at.getTime() - job.runAt.getTime();
  if (lateMs > soonMs) {
    return [
      blocks(
        `It was due ${formatMs(lateMs)} ago and no worker has made it ready. Any running worker does that.`,
        `Start a worker, or look at the logs of those that run (\`${command(schema, "workers")}\`).`,
      ),
    ];
  }
  if (lateMs >= 0) return [blocks("It is due and becomes ready at any moment.")];
  return [
    blocks(`Its time is ${formatMs(-lateMs)} away.`, `To run it at once: \`${runNow(schema, job.id)}\`.`),
  ];
}

function whyRunning(facts: Facts): Explanation {
  const { job, at } = facts;
  const runningMs = job.claimedAt === null ? 0 : at.getTime() - job.claimedAt.getTime();
  const findings = [...leaseFindings(facts), ...cancelFindings(facts), ...slowFindings(facts, runningMs)];
  const leftMs = (job.leaseUntil?.getTime() ?? 0) - at.getTime();
  if (findings.length === 0) {
    findings.push(
      notes(
        `Its worker is alive and holds the lease for another ${formatMs(leftMs)}, renewed while it runs.`,
      ),
    );
  }
  return {
    summary: `Running on ${job.worker ?? "a worker"} for ${formatMs(runningMs)}, attempt ${job.attempts}.`,
    findings,
  };
}

function leaseFindings({ job, at, around }: Facts): Finding[] {
  const worker = around.workers.find(({ id }) => id === job.worker);
  const overMs = at.getTime() - (job.leaseUntil?.getTime() ?? Number.POSITIVE_INFINITY);
  if (overMs > 0) {
    return [
      blocks(
        `Its lease ran out ${formatMs(overMs)} ago: its worker died or lost the database. Any worker rescues it with its next check.`,
        overMs > soonMs
          ? "No worker has rescued it yet: start a worker, or read the logs of those that run."
          : null,
      ),
    ];
  }
  const until = `when the lease runs out, in ${formatMs(-overMs)}, it is rescued`;
  if (worker === undefined) return [notes(`Its worker is no longer registered; ${until}.`)];
  if (isUnresponsive(worker)) {
    return [
      notes(
        `Its worker has not reported for ${formatMs(worker.heartbeatAgeMs)}; ${until} unless it is renewed.`,
      ),
    ];
  }
  return worker.draining
    ? [notes("Its worker is draining: the job may end, or be released with nothing spent.")]
    : [];
}

function cancelFindings({ job, audit, at }: Facts): Finding[] {
  if (!job.cancelRequested) return [];
  const asked = audit.findLast(({ action }) => action === "cancel");
  return [
    notes(
      asked === undefined
        ? "A cancel was requested."
        : `${asked.actor} requested a cancel ${ago(asked.at, at)}${because(asked.reason)}.`,
      "The handler stops when it reacts to its signal; no further attempt starts either way.",
    ),
  ];
}

function slowFindings(facts: Facts, runningMs: number): Finding[] {
  const { p95Ms, timeoutMs, job, quietMs = 0, stallAfterMs = null } = facts;
  const findings: Finding[] = [];
  if (isStalled(quietMs, stallAfterMs)) {
    findings.push(
      notes(
        `It is stalled: its handler has reported no step, checkpoint, progress or log line for ${formatMs(quietMs)}; its kind allows ${formatMs(stallAfterMs)}.`,
        "Check what the handler waits for, such as a lock or a call without a timeout.",
      ),
    );
  }
  if (isBeyondNormal(runningMs, p95Ms)) {
    findings.push(
      notes(
        `It is slow: p95 for ${job.kind} is ${formatMs(p95Ms)}.`,
        "Check what the handler waits for, such as a lock or a call without a timeout.",
      ),
    );
  }
  if (isNearTimeout(runningMs, timeoutMs)) {
    findings.push(notes(`It is close to its timeout of ${formatMs(timeoutMs)}, at which the attempt fails.`));
  }
  return findings;
}

function whyParked(facts: Facts): Explanation {
  const { schema, job, maxCrashes, around, at } = facts;
  const { parkReason, parkUntil, reason, id, crashes, queue, kind } = job;
  if (parkReason !== "quarantine") {
    const rule = parkReason === null ? undefined : (parkRules[parkReason] as ParkRule | undefined);
    const until = parkUntil === null ? "" : ` until ${when(parkUntil, at)}`;
    return {
      summary: `It is parked${because(parkReason)}${until}.`,
      findings: [
        ...(parkReason === "blocked" && facts.flow !== undefined
          ? waitsForOthers(facts)
          : reason === null
            ? []
            : [notes(reason)]),
        ...(parkReason === "paused" ? pauseFindings(facts) : []),
        ...(parkReason === "limit" ? limitFindings(facts) : []),
        rule?.runNow === false
          ? blocks(rule.why)
          : blocks(rule?.why ?? "It is held back.", `To run it at once: \`${runNow(schema, id)}\`.`),
        ...expiryFindings(facts),
      ],
    };
  }
  const may = maxCrashes === null ? "" : ` (at most ${maxCrashes} are allowed)`;
  const able = around.workers.filter(
    (worker) => worker.slots !== null && worker.servesKind && !isUnresponsive(worker),
  );
  return {
    summary: `It is in quarantine: its worker died ${times(crashes)} while running it${may}.`,
    findings: [
      blocks(parkRules.quarantine.why),
      ...(able.length === 0
        ? [blocks(`No live worker serves queue ${queue} and kind ${kind}.`, "Start one.")]
        : []),
      ...(around.suspects > 0 ? [blocks(`${some(around.suspects, 100)} in quarantine before it.`)] : []),
      notes(
        "If the worker dies again, the job is dead.",
        `Once the cause of the crash is fixed: \`${runNow(schema, id)}\`.`,
      ),
    ],
  };
}

function whyDead(facts: Facts): Explanation {
  const { schema, job, at } = facts;
  const error = lastError(job);
  const reason = job.reason ?? "no reason was kept";
  const spent = `It spent ${job.attempts === 1 ? "1 attempt" : `${job.attempts} attempts`}${job.crashes > 0 ? ` and its worker died ${times(job.crashes)}` : ""}.`;
  return {
    summary: `It died ${ago(job.finishedAt, at)}: ${reason}`,
    findings: [
      ...(error === null || reason.includes(error) ? [] : [notes(`Its last error was ${error}.`)]),
      blocks(
        `${spent} It won't be retried automatically.`,
        `Once the cause is fixed: \`${replay(schema, job.id)}\`.`,
      ),
      ...leftInFlow(facts),
    ],
  };
}

function whyCancelled(facts: Facts): Explanation {
  const { schema, job, audit, at, flow } = facts;
  const entry = audit.findLast(({ action }) => action === "cancel");
  const own = flow === undefined || job.log.at(-1)?.outcome === "cancelled";
  const by = entry === undefined ? (own ? "by its handler" : "with its flow") : `by ${entry.actor}`;
  return {
    summary: `It was cancelled ${by} ${ago(job.finishedAt, at)}${because(entry?.reason ?? job.reason)}.`,
    findings: [
      blocks("It won't be retried automatically.", `To requeue it: \`${replay(schema, job.id)}\`.`),
      ...leftInFlow(facts),
    ],
  };
}

function whySucceeded(facts: Facts): Explanation {
  const { job, at } = facts;
  const { claimedAt, finishedAt, worker, attempts } = job;
  const took =
    claimedAt === null || finishedAt === null
      ? ""
      : ` in ${formatMs(finishedAt.getTime() - claimedAt.getTime())}`;
  const on = worker === null ? "" : ` on ${worker}`;
  return {
    summary: `It succeeded ${ago(finishedAt, at)}${on}${took}, at attempt ${attempts}.`,
    findings: leftInFlow(facts),
  };
}

function runNow(schema: string, id: string): string {
  return command(schema, "jobs", "run-now", id);
}

function replay(schema: string, id: string): string {
  return command(schema, "jobs", "replay", id, "--reason", "…");
}

/** The last error in one line, at most 300 characters. */
function lastError({ log }: Job): string | null {
  const error = log.findLast((attempt) => attempt.error !== undefined)?.error;
  if (error === undefined) return null;
  const text = `${error.class}: ${error.message}`;
  return text.length > 300 ? `${text.slice(0, 299)}…` : text;
}

function when(date: Date, at: Date): string {
  const ms = date.getTime() - at.getTime();
  return `${date.toISOString()} (${ms >= 0 ? `in ${formatMs(ms)}` : `${formatMs(-ms)} ago`})`;
}

function ago(date: Date | null, at: Date): string {
  return date === null ? "" : `${formatMs(Math.max(0, at.getTime() - date.getTime()))} ago`;
}

function because(reason: string | null): string {
  return reason === null ? "" : `: ${reason}`;
}

function times(count: number): string {
  return count === 1 ? "once" : count === 2 ? "twice" : `${count} times`;
}
