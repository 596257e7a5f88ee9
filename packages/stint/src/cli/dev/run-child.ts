import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { StopReport } from "../../worker/events.ts";
import { deferred } from "../deferred.ts";
import type { FromChild, Serving, ToChild } from "./messages.ts";

export type Ending = { readonly code: number } | { readonly signal: NodeJS.Signals };

export type Child = {
  /** Resolves to true once the worker serves, or to false if the process exited before. */
  readonly serving: Promise<boolean>;
  /** Resolves when the process has exited, with its exit code or signal. */
  readonly ended: Promise<Ending>;
  /** How its worker stopped, if it reported that. */
  report(): StopReport | undefined;
  isAlive(): boolean;
  /** Drains the worker. A second call aborts handlers. With `now`, running jobs are aborted and released at once. */
  stop(options?: { now: boolean }): void;
};

const program = fileURLToPath(new URL("./child.js", import.meta.url));

/** Run the worker in a new process, which loads all modules again. */
export function runChild(
  run: ToChild & { type: "run" },
  databaseUrl: string,
  onServing: (serving: Serving) => void,
): Child {
  const child = fork(program, [], {
    env: { ...process.env, DATABASE_URL: databaseUrl },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const serving = deferred<boolean>();
  const ended = deferred<Ending>();
  let report: StopReport | undefined;
  let alive = true;

  child.on("message", (message: FromChild) => {
    if (message.type === "serving") {
      serving.resolve(true);
      onServing(message);
    } else report = message.report;
  });
  child.on("exit", (code, signal) => {
    alive = false;
    serving.resolve(false);
    ended.resolve(signal === null ? { code: code ?? 1 } : { signal });
  });
  const send = (message: ToChild): void => {
    // The child may exit at any moment. Its exit event reports that, so errors are ignored here.
    if (child.connected) child.send(message, () => undefined);
  };
  send(run);
  return {
    serving: serving.promise,
    ended: ended.promise,
    report: () => report,
    isAlive: () => alive,
    stop: ({ now } = { now: false }) => send({ type: "stop", now }),
  };
}
