import { expect, test } from "vitest";
import { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import type { WorkerEvents } from "./events.ts";
import { logEvents } from "./log-events.ts";

test.each([
  ["failed", "retrying", "warn"],
  ["timed-out", "retrying", "warn"],
  ["failed", "dead", "error"],
] as const)("an attempt that %s and left the job %s is logged with its error", (outcome, state, level) => {
  const lines: { level: string; fields: object }[] = [];
  const write = (name: string) => (fields: object) => void lines.push({ level: name, fields });
  const logger: Logger = {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: () => logger,
  };
  const events = new Emitter<WorkerEvents>(() => undefined);
  logEvents(events, logger);
  const error = new TypeError("no such thing");
  const job = { id: "1", kind: "note", queue: "default", key: null, tenant: null, tags: [], attempt: 2 };
  events.emit("failed", { error, job, outcome, state, ms: 5 });
  if (state === "dead") events.emit("dead", { error, job, outcome, reason: "no such thing" });

  const fields = expect.objectContaining({ job: "1", attempt: 2, state, err: error }) as object;
  expect(lines).toEqual([{ level, fields }]);
});
