import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { formatMs } from "../model/figures.ts";
import type { AttemptEvent, WorkerEvents } from "./events.ts";

/** The log lines of a worker, in one place. With `attempts`, the start and the end of each attempt at level `info`. */
export function logEvents(
  events: Emitter<WorkerEvents>,
  logger: Logger,
  { attempts = false }: { attempts?: boolean } = {},
): void {
  events.on("started", () => logger.info({}, "worker started"));
  events.on("stopping", ({ running }) => logger.info({ running }, "worker stopping: claims nothing new"));
  events.on("stopped", ({ drained, released, ms }) => {
    logger.info(
      { drained, released, ms: Math.round(ms) },
      `worker stopped in ${formatMs(ms)}: ${drained} ended, ${released} released`,
    );
  });
  // Thousands a second: events without a listener cost nothing.
  if (attempts || (logger.isLevelEnabled?.("debug") ?? true)) logAttempts(events, logger, attempts);
  events.on("failed", ({ error, job, outcome, state, ms }) => {
    // Dead jobs, lost leases and rescued jobs have their own lines.
    if (state === "dead" || outcome === "lease-lost" || outcome === "crashed") return;
    const fields = { ...fieldsOf(job), outcome, state, ms: Math.round(ms ?? 0), err: error };
    logger.warn(
      fields,
      `${job.kind} ${outcome}; ${state === "cancelled" ? "it was cancelled" : "it will be retried"}`,
    );
  });
  events.on("dead", ({ error, job, outcome, reason }) => {
    const fields = { ...fieldsOf(job), outcome, state: "dead", reason, err: error };
    logger.error(fields, `${job.kind} is dead`);
  });
  events.on("leaseLost", (lost) => {
    logger.warn(
      { ...fieldsOf(lost), epoch: lost.epoch },
      `${lost.kind}: the lease was lost, so this attempt's outcome was not recorded`,
    );
  });
  events.on("rescued", (job) => {
    logger.warn(
      { ...job },
      `${job.kind}: rescued from worker ${job.worker}, whose lease ran out; now ${job.state}`,
    );
  });
  events.on("unserved", (kinds) => {
    const names = kinds.map(({ kind, queue }) => `${kind} (queue ${queue})`).join(", ");
    logger.warn({ kinds }, `no worker serves these waiting jobs: ${names}`);
  });
  events.on("blocked", ({ ms, kinds }) => {
    logger.warn(
      { ms, kinds },
      `the event loop was blocked for ${formatMs(ms)} while running ${kinds.join(", ")}`,
    );
  });
  events.on("slow", ({ id, kind, queue, ms, p95Ms, because }) => {
    const why =
      because === "near-timeout" || p95Ms === null
        ? "its timeout is near"
        : `p95 of its kind is ${formatMs(p95Ms)}`;
    logger.warn(
      { job: id, kind, queue, ms: Math.round(ms), p95Ms, because },
      `${kind} has been running for ${formatMs(ms)}; ${why}`,
    );
  });
  events.on("stalled", ({ id, kind, queue, ms, stallAfterMs }) => {
    logger.warn(
      { job: id, kind, queue, ms: Math.round(ms), stallAfterMs },
      `${kind} has reported no progress for ${formatMs(ms)}; it counts as stalled after ${formatMs(stallAfterMs)}`,
    );
  });
  events.on("stuck", ({ id, kind }) => {
    logger.error(
      { job: id, kind },
      `${kind} runs on although its signal aborted; its slot stays taken until it ends`,
    );
  });
}

function logAttempts(events: Emitter<WorkerEvents>, logger: Logger, attempts: boolean): void {
  const level = attempts ? "info" : "debug";
  events.on("began", (began) => logger[level](fieldsOf(began), `${began.kind} begins`));
  events.on("settled", (settled) => {
    const { kind, outcome, state, ms } = settled;
    // Failures have a line at level `warn` or `error`.
    if (outcome === "failed" || outcome === "timed-out") return;
    const fields = { ...fieldsOf(settled), outcome, state, ms: Math.round(ms) };
    logger[level](fields, `${kind} ${outcome}`);
  });
}

/** The fields of every line about an attempt, so that one search finds them all. */
function fieldsOf({ id, kind, key, attempt, traceId }: AttemptEvent): object {
  return { job: id, kind, key, attempt, ...(traceId === undefined ? {} : { traceId }) };
}
