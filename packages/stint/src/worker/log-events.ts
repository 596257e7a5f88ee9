import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import { formatMs } from "../model/duration.ts";
import type { WorkerEvents } from "./events.ts";

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
  events.on("settled", ({ id, kind, attempt, outcome, state, ms, error }) => {
    if (!tellsAll && outcome === "succeeded") return;
    const err = error === undefined ? {} : { err: { class: error.class, message: error.message } };
    const fields = { job: id, kind, attempt, outcome, state, ms: Math.round(ms), ...err };
    if (state === "dead") logger.error(fields, `${kind} is dead`);
    else if (outcome === "failed" || outcome === "timed-out")
      logger.warn(fields, `${kind} ${outcome}; it will be tried again`);
    else logger.debug(fields, `${kind} ${outcome}`);
  });
  events.on("leaseLost", ({ id, kind, epoch }) => {
    logger.warn(
      { job: id, kind, epoch },
      `${kind}: the lease was lost, so this attempt's outcome was not recorded`,
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
  events.on("stuck", ({ id, kind }) => {
    logger.error(
      { job: id, kind },
      `${kind} goes on although its signal aborted; its slot stays taken until it ends`,
    );
  });
}
