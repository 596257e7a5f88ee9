import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Worker as Thread } from "node:worker_threads";
import { code } from "./isolated-child-code.js";
import type { ResolvedIsolate } from "./isolate-options.ts";
import type { ToChild } from "./messages.ts";

/** How a thread or process ended by itself, or why it was killed. */
export type CarrierEnd = {
  readonly outOfMemory: boolean;
  readonly signal: NodeJS.Signals | null;
  readonly exitCode: number | null;
  /** The last lines that it wrote to standard error, or the error that ended it. */
  readonly detail: string;
};

export type CarrierListener = {
  message(raw: unknown): void;
  ended(end: CarrierEnd): void;
};

/** The thread or process that runs a handler. */
export type Carrier = {
  /** Throws for a value that cannot be copied. */
  send(message: ToChild): void;
  /** End it at once, whatever it does. `ended` follows. */
  kill(): void;
  /** Watch its memory while it runs an attempt. */
  watchMemory(on: boolean): void;
};

const mebibyte = 1_048_576;

export function startCarrier(isolate: ResolvedIsolate, listener: CarrierListener): Carrier {
  return isolate.in === "thread" ? startThread(isolate, listener) : startProcess(isolate, listener);
}

function startThread({ memoryBytes }: ResolvedIsolate, listener: CarrierListener): Carrier {
  const thread = new Thread(code, {
    eval: true,
    name: "stint-handler",
    ...(memoryBytes === undefined
      ? {}
      : { resourceLimits: { maxOldGenerationSizeMb: Math.ceil(memoryBytes / mebibyte) } }),
  });
  let error: Error | undefined;
  thread.on("message", (raw: unknown) => listener.message(raw));
  thread.on("messageerror", () => undefined);
  thread.on("error", (thrown: Error) => (error = thrown));
  thread.on("exit", (exitCode) => {
    const outOfMemory = (error as { code?: unknown } | undefined)?.code === "ERR_WORKER_OUT_OF_MEMORY";
    listener.ended({ outOfMemory, signal: null, exitCode, detail: error?.message ?? "" });
  });
  return {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
    send: (message) => thread.postMessage(message),
    kill: () => void thread.terminate(),
    // Node itself ends a thread whose heap exceeds its limit.
    watchMemory: () => undefined,
  };
}

/** The program arrives as a message: it is too long for a command line, and would be shown by `ps`. */
const bootstrap = `process.once("message", (code) => {
  const { Module } = require("node:module");
  const program = new Module("stint-handler");
  program.filename = process.cwd() + "/stint-handler.cjs";
  program.paths = [];
  program._compile(code, program.filename);
})`;

/** How often the memory of a process is read while it runs an attempt. */
const lookEveryMs = 200;
const longestDetail = 4_096;
/** How long the last lines of a process may take to arrive after its end. */
const closeWithinMs = 1_000;

function startProcess({ memoryBytes }: ResolvedIsolate, listener: CarrierListener): Carrier {
  const heap = memoryBytes === undefined ? [] : [`--max-old-space-size=${Math.ceil(memoryBytes / mebibyte)}`];
  const child = spawn(process.execPath, [...execArgv(), ...heap, "--eval", bootstrap], {
    stdio: ["ignore", "inherit", "pipe", "ipc"],
    serialization: "advanced",
    // Ctrl-C in a terminal must not reach it before its program ignores signals.
    detached: process.platform !== "win32",
  });
  let tail = "";
  let exceeded = false;
  let watching: NodeJS.Timeout | undefined;
  let loadedBytes: number | undefined;
  let failure = "";
  // With the programs that the handler has started: they are in the group of the process.
  const kill = (): void => {
    if (!killGroup(child.pid)) child.kill("SIGKILL");
  };
  const look = (): void => {
    const bytes = residentBytes(child.pid);
    if (bytes === undefined || memoryBytes === undefined) return;
    // What the loaded code takes does not count.
    loadedBytes ??= bytes;
    if (bytes - loadedBytes <= memoryBytes) return;
    exceeded = true;
    kill();
  };
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    tail = (tail + text).slice(-longestDetail);
    process.stderr.write(text);
  });
  child.on("message", (raw) => listener.message(raw));
  child.on("error", (error) => {
    failure = String(error);
    kill();
  });
  // The handler has closed the channel; without it nothing can be recorded.
  child.on("disconnect", kill);
  let closing: NodeJS.Timeout | undefined;
  let isEnded = false;
  const ended = (exitCode: number | null, signal: NodeJS.Signals | null): void => {
    if (isEnded) return;
    isEnded = true;
    clearInterval(watching);
    clearTimeout(closing);
    child.stderr?.destroy();
    const outOfMemory =
      exceeded || (signal === "SIGABRT" && /heap out of memory|Allocation failed/.test(tail));
    listener.ended({ outOfMemory, signal, exitCode, detail: tail.trim() || failure });
  };
  child.on("exit", (exitCode, signal) => {
    killGroup(child.pid);
    // `close` waits for the end of standard error, which a program that left the group may keep open.
    closing = setTimeout(() => ended(exitCode, signal), closeWithinMs);
  });
  child.on("close", ended);
  child.send(code);
  return {
    send: (message) => {
      if (child.connected) child.send(message, () => undefined);
    },
    kill,
    watchMemory: (on) => {
      clearInterval(watching);
      if (!on || memoryBytes === undefined) return;
      look();
      watching = setInterval(look, lookEveryMs);
    },
  };
}

/** End a process and what it has started. False: there is no such group. */
function killGroup(pid: number | undefined): boolean {
  if (pid === undefined || process.platform === "win32") return false;
  try {
    return process.kill(-pid, "SIGKILL");
  } catch {
    return false;
  }
}

/** The memory that the process has in use, where the system reports it (Linux). */
function residentBytes(pid: number | undefined): number | undefined {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1_024;
  } catch {
    return undefined;
  }
}

/** Options of this process that must not be passed on: a program given on the command line, and the port of a debugger. */
function execArgv(): string[] {
  const withValue = new Set(["-e", "--eval", "-p", "--print", "-pe", "--input-type"]);
  return process.execArgv.filter(
    (argument, index, all) =>
      !withValue.has(argument) &&
      !withValue.has(all[index - 1] ?? "") &&
      !/^--(?:inspect|max-old-space-size|eval=|input-type=)/.test(argument),
  );
}
