import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { sleep } from "../../runtime/sleep.ts";
import type { GlobalOptions } from "../context.ts";
import { deferred } from "../deferred.ts";
import type { ServeFlags } from "../serve-worker.ts";
import type { FromProcess, Probed, ToProcess } from "./messages.ts";
import { NumberedLines } from "./numbered-lines.ts";

export type Ending = { readonly code: number } | { readonly signal: NodeJS.Signals };

const program = fileURLToPath(new URL("./child.js", import.meta.url));
const probeWithinMs = 2_000;
/** A process exits so long after its worker has stopped, on a busy machine. */
const exitWithinMs = 5_000;
/** How long the last lines of a process may take to arrive after its end. */
const lastLinesWithinMs = 1_000;
/** How long a process that does not serve yet has for its stop: it may be starting a worker. */
const longestUnserved = { drained: 30_000, hurried: 10_000 };

/** One process with one worker, as its supervisor sees it. */
export class WorkerProcess {
  /** Resolves to true once the worker serves, or to false if the process ended before. */
  readonly serving: Promise<boolean>;
  readonly ended: Promise<Ending>;
  readonly startedAt = performance.now();
  /** The id of its worker, before that starts. */
  workerId: string | undefined;
  /** When it last responded to a probe. */
  respondedAt = performance.now();
  /** Whether it did not stop in time and was killed for that. */
  wasKilled = false;
  readonly #child: ChildProcess;
  readonly #probes = new Map<number, (probed: Probed) => void>();
  /** How long its stop may take, once it serves. */
  #longestStopMs: typeof longestUnserved | undefined;
  #lastProbe = 0;
  #deadline: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(number: number, globals: GlobalOptions, flags: ServeFlags) {
    const serving = deferred<boolean>();
    const ended = deferred<Ending>();
    this.serving = serving.promise;
    this.ended = ended.promise;
    this.#child = fork(program, [], { stdio: ["ignore", "pipe", "pipe", "ipc"] });
    const { stdout, stderr } = this.#child;
    stdout?.setEncoding("utf8").pipe(new NumberedLines(number)).pipe(process.stdout, { end: false });
    stderr?.setEncoding("utf8").pipe(new NumberedLines(number)).pipe(process.stderr, { end: false });
    this.#child.on("message", (message: FromProcess | null) => {
      if (message?.type === "stint:starting") this.workerId = message.worker;
      else if (message?.type === "stint:serving") {
        this.#longestStopMs = message.longestStopMs;
        serving.resolve(true);
      } else if (message?.type === "stint:probed") {
        this.respondedAt = performance.now();
        this.#probes.get(message.id)?.(message);
      }
    });
    // A failed spawn, or a message that could not be sent: the process ends, or has ended.
    this.#child.on("error", () => this.#child.kill("SIGKILL"));
    let lastLines: NodeJS.Timeout | undefined;
    const end = (code: number | null, signal: NodeJS.Signals | null): void => {
      clearTimeout(lastLines);
      serving.resolve(false);
      ended.resolve(signal === null ? { code: code ?? 1 } : { signal });
    };
    this.#child.on("exit", (code, signal) => {
      this.#hasEnded = true;
      clearTimeout(this.#deadline);
      // `close` waits for the end of its output, which a program that a handler has started may keep open.
      lastLines = setTimeout(() => end(code, signal), lastLinesWithinMs);
    });
    // After its streams, so that its last lines are written before anything is said about its end.
    this.#child.on("close", end);
    this.#send({ type: "run", globals, flags });
  }

  get isServing(): boolean {
    return this.#longestStopMs !== undefined && !this.#hasEnded;
  }

  /** Drain the worker, and kill the process if it takes longer than its worker may. With `hurry`, the drain is cut short. */
  stop(hurry = false): void {
    if (this.#hasEnded) return;
    this.#send({ type: "stop", hurry });
    const limitMs = (this.#longestStopMs ?? longestUnserved)[hurry ? "hurried" : "drained"];
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => {
      this.wasKilled = true;
      this.#child.kill("SIGKILL");
    }, limitMs + exitWithinMs);
  }

  /** Its health; undefined if it does not respond in time. */
  async probe(): Promise<Probed | undefined> {
    if (this.#hasEnded) return undefined;
    const id = ++this.#lastProbe;
    const over = new AbortController();
    try {
      return await Promise.race([
        new Promise<Probed>((resolve) => {
          this.#probes.set(id, resolve);
          this.#send({ type: "probe", id });
        }),
        sleep(probeWithinMs, over.signal).then(() => undefined),
      ]);
    } finally {
      over.abort();
      this.#probes.delete(id);
    }
  }

  #send(message: ToProcess): void {
    // The process may end at any moment; `ended` reports that.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }
}
