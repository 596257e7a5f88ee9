import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { formatMs } from "../model/duration.ts";
import type { AttemptEvent, WorkerEvents } from "./events.ts";

/** What a worker says in its log, in one place. With `attempts`, the start and the end of each at level `info`. */
export function logEvents(
  events: Emitter<WorkerEvents>,
  logger: Logger,
  { attempts = false }: { attempts?: boolean } = {},
): void {
  events.on("started", () => logger.info({}, "worker started"));
  events.on("stopping", ({ running }) => logger.info({ running }, "worker stopping: nothing new is taken"));
  events.on("stopped", ({ drained, released, ms }) => {
    logger.info(
      { drained, released, ms: Math.round(ms) },
      `worker stopped in ${formatMs(ms)}: ${drained} ended, ${released} handed back`,
    );
  });
  // Thousands a second: without a listener they cost nothing.
  if (attempts || (logger.isLevelEnabled?.("debug") ?? true)) logAttempts(events, logger, attempts);
  events.on("failed", ({ error, job, outcome, state, ms }) => {
    // A death has a line of its own; so have a lease that was lost and a job that was taken back.
    if (state === "dead" || outcome === "lease-lost" || outcome === "crashed") return;
    const fields = { ...fieldsOf(job), outcome, state, ms: Math.round(ms ?? 0), err: error };
    logger.warn(
      fields,
      `${job.kind} ${outcome}; ${state === "cancelled" ? "it was cancelled" : "it will be tried again"}`,
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
      `${job.kind}: taken back from worker ${job.worker}, whose lease ran out; now ${job.state}`,
    );
  });
  events.on("unserved", (kinds) => {
    const names = kinds.map(({ kind, queue }) => `${kind} (queue ${queue})`).join(", ");
    logger.warn({ kinds }, `jobs wait that no worker serves: ${names}`);
  });
  events.on("blocked", ({ ms, kinds }) => {
    logger.warn(
      { ms, kinds },
      `the event loop stood still for ${formatMs(ms)} while running ${kinds.join(", ")}`,
    );
  });
  events.on("slow", ({ id, kind, queue, ms, usualMs, because }) => {
    const why =
      because === "near-timeout" || usualMs === null
        ? "its time is nearly over"
        : `95 of 100 are over in ${formatMs(usualMs)}`;
    logger.warn(
      { job: id, kind, queue, ms: Math.round(ms), usualMs, because },
      `${kind} has been running for ${formatMs(ms)}; ${why}`,
    );
  });
  events.on("stuck", ({ id, kind }) => {
    logger.error(
      { job: id, kind },
      `${kind} goes on although its signal aborted; its slot stays taken until it ends`,
    );
  });
}

function logAttempts(events: Emitter<WorkerEvents>, logger: Logger, attempts: boolean): void {
  const level = attempts ? "info" : "debug";
  events.on("began", (began) => logger[level](fieldsOf(began), `${began.kind} begins`));
  events.on("settled", (settled) => {
    const { kind, outcome, state, ms } = settled;
    // These have a line at level `warn` or `error`.
    if (outcome === "failed" || outcome === "timed-out") return;
    const fields = { ...fieldsOf(settled), outcome, state, ms: Math.round(ms) };
    logger[level](fields, `${kind} ${outcome}`);
  });
}

/** What every line about an attempt has, so that one search finds them all. */
function fieldsOf({ id, kind, key, attempt, traceId }: AttemptEvent): object {
  return { job: id, kind, key, attempt, ...(traceId === undefined ? {} : { traceId }) };
}
