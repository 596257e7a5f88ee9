import { Listener } from "../db/listener.ts";
import type { Logger } from "../runtime/logger.ts";
import type { WorkerDeps } from "./deps.ts";

export type WakeListenerOptions = {
  deps: Pick<WorkerDeps, "connection" | "db" | "wake">;
  worker: string;
  logger: Logger;
  onHint: (hint: string) => void;
  pollMs: () => number;
};

/** The wake listener of one worker; undefined where wakes are off. */
export function wakeListener(options: WakeListenerOptions): Listener | undefined {
  const { deps, worker, logger, onHint, pollMs } = options;
  if (deps.wake === "none") return undefined;
  return new Listener({
    connection: deps.connection,
    channel: `stint:${deps.db.schema}`,
    applicationName: `stint wakes ${worker}`.slice(0, 63),
    throughPooler: deps.wake === "notify",
    onHint,
    // Wakes sent before the subscription are lost: new jobs, jobs that became due, cancels, pauses.
    onListening: () => {
      onHint("due");
      onHint("cancel");
      onHint("listening");
    },
    onPooler: (detail) =>
      logger.info({ detail, pollMs: pollMs() }, "a pooler stands between: polling for jobs, without LISTEN"),
    onTrouble: (detail) => {
      logger.warn({ detail }, "cannot receive wakes; polling until the connection is back");
      onHint("lost");
    },
  });
}
