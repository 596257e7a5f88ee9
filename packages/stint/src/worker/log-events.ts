import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { formatMs } from "../model/duration.ts";
import type { AttemptEvent, WorkerEvents } from "./events.ts";

/** What a worker says in its log, in one place. */
export function logEvents(events: Emitter<WorkerEvents>, logger: Logger): void {
  events.on("started", () => logger.info({}, "worker started"));
  events.on("stopping", ({ running }) => logger.info({ running }, "worker stopping: nothing new is taken"));
  events.on("stopped", ({ drained, released, ms }) => {
    logger.info(
      { drained, released, ms: Math.round(ms) },
      `worker stopped in ${formatMs(ms)}: ${drained} ended, ${released} handed back`,
    );
  });
  // Thousands a second, of which most say nothing that is logged.
  const tellsAll = logger.isLevelEnabled?.("debug") ?? true;
  if (tellsAll) events.on("began", (began) => logger.debug(fieldsOf(began), `${began.kind} begins`));
  events.on("settled", (settled) => {
    const { kind, outcome, state, ms, error } = settled;
    if (!tellsAll && outcome === "succeeded") return;
    const err = error === undefined ? {} : { err: { class: error.class, message: error.message } };
    const fields = { ...fieldsOf(settled), outcome, state, ms: Math.round(ms), ...err };
    if (state === "dead") logger.error(fields, `${kind} is dead`);
    else if (outcome === "failed" || outcome === "timed-out")
      logger.warn(fields, `${kind} ${outcome}; it will be tried again`);
    else logger.debug(fields, `${kind} ${outcome}`);
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

/** What every line about an attempt has, so that one search finds them all. */
function fieldsOf({ id, kind, key, attempt, traceId }: AttemptEvent): object {
  return { job: id, kind, key, attempt, ...(traceId === undefined ? {} : { traceId }) };
}
