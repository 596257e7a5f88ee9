import { command } from "../model/command.ts";
import { formatCount, formatMs, plural } from "../model/figures.ts";
import { isUnresponsive } from "../model/liveness.ts";
import type { NearWorker } from "../sql/explain-job.ts";
import { blocks, notes, some, type Facts, type Finding } from "./findings.ts";
import { expiryFindings, pauseFindings } from "./why-held.ts";
import type { Explanation } from "./types.ts";

const mostAhead = 1_000;
/** After this wait, a ready job that does not run is reported. */
const longMs = 10_000;

/** Why a ready job does not run: no worker serves it, all slots are busy, or other jobs come first. */
export function whyReady(facts: Facts): Explanation {
  const { job, at, around } = facts;
  const waitedMs = Math.max(0, at.getTime() - job.runAt.getTime());
  const serving = around.workers.filter((worker) => worker.slots !== null && worker.servesKind);
  const able = serving.filter((worker) => !worker.draining && !isUnresponsive(worker));
  const findings = pauseFindings(facts);
  if (able.length === 0) findings.push(unserved(facts, serving));
  else if (findings.length === 0)
    findings.push(...busyFindings(facts, able), ...asleepFindings(able, waitedMs));
  if (!findings.some((finding) => finding.blocks)) findings.push(freeFinding(able, waitedMs));

  const [first] = findings;
  findings.push(...expiryFindings(facts));
  return {
    summary: `It has been ready for ${formatMs(waitedMs)}. ${first?.text ?? ""}`.trim(),
    findings,
  };
}

/** No worker can take the job. Names the missing part: the queue or the handler. */
function unserved(
  { schema, job: { queue, kind }, around: { workers } }: Facts,
  serving: readonly NearWorker[],
): Finding {
  if (serving.length > 0) {
    const draining = serving.filter((worker) => worker.draining).length;
    const unresponsive = serving.filter(isUnresponsive).length;
    const how =
      draining === serving.length
        ? "draining"
        : unresponsive === serving.length
          ? "unresponsive"
          : "draining or unresponsive";
    return blocks(
      `${serving.length === 1 ? "The only worker that serves" : `All ${formatCount(serving.length)} workers that serve`} queue ${queue} and kind ${kind} ${serving.length === 1 ? "is" : "are"} ${how}.`,
      "Start a worker, or wait for the one that replaces them.",
    );
  }
  const ofQueue = workers.filter((worker) => worker.slots !== null && !isUnresponsive(worker)).length;
  const ofKind = workers.filter((worker) => worker.servesKind && !isUnresponsive(worker)).length;
  if (ofQueue > 0 && ofKind > 0) {
    return blocks(
      `Some workers serve queue ${queue} and others have a handler for ${kind}, but none does both.`,
      `Give the workers with the handler a pool for ${queue}, or enqueue ${kind} to a queue they serve.`,
    );
  }
  if (ofQueue > 0) {
    return blocks(
      `${workersText(ofQueue)} queue ${queue}, but none has a handler for ${kind}.`,
      `Deploy a worker with a handler for ${kind}.`,
    );
  }
  if (ofKind > 0) {
    return blocks(
      `No worker serves queue ${queue}, though ${ofKind === 1 ? "1 has" : `${ofKind} have`} a handler for ${kind}.`,
      `Add ${queue} to their pools.`,
    );
  }
  return blocks(`No worker serves queue ${queue}.`, `Start one: \`${command(schema, "worker")}\`.`);
}

function busyFindings(facts: Facts, able: readonly NearWorker[]): Finding[] {
  const { queue } = facts.job;
  const { ahead } = facts.around;
  const slots = able.reduce((sum, worker) => sum + (worker.slots ?? 0), 0);
  const held = able.reduce((sum, worker) => sum + Math.min(worker.held, worker.slots ?? 0), 0);
  const findings: Finding[] = [];
  if (held >= slots) {
    findings.push(
      blocks(
        `All ${formatCount(slots)} slots for queue ${queue} are busy.`,
        `It waits its turn. If the queue keeps growing, add slots or workers, or see what runs for long (\`${command(facts.schema, "jobs", "list", "--state", "running")}\`).`,
      ),
    );
  }
  if (ahead > 0) {
    const text = `${some(ahead, mostAhead)} before it in queue ${queue}: more urgent, or older.`;
    findings.push(ahead >= slots - held ? blocks(text) : notes(text));
  }
  return findings;
}

function asleepFindings(able: readonly NearWorker[], waitedMs: number): Finding[] {
  if (!able.every((worker) => worker.asleep)) return [];
  return [
    waitedMs > longMs
      ? blocks(
          "Every worker that could take it is asleep, and no wake has reached one.",
          "Check whether it was enqueued without wakes, or through a pooler that drops them. Any enqueue with a wake, or a restart, wakes them.",
        )
      : notes("The workers that could take it are asleep; a wake has been sent."),
  ];
}

function freeFinding(able: readonly NearWorker[], waitedMs: number): Finding {
  if (waitedMs <= longMs) return notes(`${haveFree(able.length)}: it is claimed at any moment.`);
  return notes(
    `${haveFree(able.length)}, and yet it waits.`,
    "Look at their logs: they may be unable to reach the database, or their event loop is blocked.",
  );
}

function workersText(count: number): string {
  return plural(count, "worker serves", "workers serve");
}

function haveFree(count: number): string {
  return `${workersText(count)} it and ${count === 1 ? "has" : "have"} free slots`;
}
