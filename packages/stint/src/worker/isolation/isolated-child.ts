import { randomUUID } from "node:crypto";
import { HandlerCrashedError, InvalidOptionError } from "../../errors.ts";
import type { HandlerContext } from "../handler.ts";
import { startCarrier, type Carrier, type CarrierEnd } from "./carrier.ts";
import { IsolatedAttempt, type AttemptLimits } from "./isolated-attempt.ts";
import type { ResolvedIsolate } from "./isolate-options.ts";
import { readMessage, type ChildMessage } from "./messages.ts";
import { fromSent } from "./sent-error.ts";

/** A thread or process with the handler of one kind. It runs one attempt at a time. */
export class IsolatedChild {
  /** Resolves when the handler is loaded. Rejects if it cannot be, or the child ends before. */
  readonly loaded: Promise<void>;
  /** Whether it has received its last job. */
  hasBegun = false;
  readonly #kind: string;
  readonly #isolate: ResolvedIsolate;
  readonly #token = randomUUID();
  readonly #carrier: Carrier;
  #settleLoad: { resolve: () => void; reject: (error: Error) => void };
  #current: IsolatedAttempt | undefined;
  #attempts = 0;
  #hasEnded = false;
  #memoryBytes = 0;

  constructor(kind: string, isolate: ResolvedIsolate, onEnded: () => void) {
    this.#kind = kind;
    this.#isolate = isolate;
    this.#settleLoad = { resolve: () => undefined, reject: () => undefined };
    this.loaded = new Promise<void>((resolve, reject) => (this.#settleLoad = { resolve, reject }));
    this.loaded.catch(() => undefined);
    this.#carrier = startCarrier(isolate, {
      message: (raw) => {
        const message = readMessage(raw, this.#token);
        if (message !== undefined) this.#received(message);
      },
      ended: (end) => {
        this.#hasEnded = true;
        onEnded();
        this.#ended(end);
      },
    });
    this.#carrier.send({
      type: "load",
      token: this.#token,
      file: isolate.file,
      kind,
      parentPid: process.pid,
    });
  }

  /** Whether it can run another attempt. One that uses more than half of its memory makes room for a new one. */
  get isReusable(): boolean {
    const { memoryBytes } = this.#isolate;
    return !this.#hasEnded && (memoryBytes === undefined || this.#memoryBytes <= memoryBytes / 2);
  }

  /** Run the handler. Resolves with what it returned, rejects with what it threw, or with `HandlerCrashedError`. */
  async run(context: HandlerContext, limits: AttemptLimits): Promise<unknown> {
    const attempt = new IsolatedAttempt(++this.#attempts, context, limits, this.#carrier);
    this.#current = attempt;
    this.#carrier.watchMemory(true);
    try {
      return await attempt.run();
    } finally {
      this.hasBegun = attempt.hasBegun;
      this.#carrier.watchMemory(false);
      this.#current = undefined;
    }
  }

  kill(): void {
    this.#carrier.kill();
  }

  #received(message: ChildMessage): void {
    if (message.type === "loaded") return this.#settleLoad.resolve();
    if (message.type === "refused") {
      const cause = message.error === undefined ? undefined : fromSent(message.error);
      const why = cause === undefined ? message.rule : `${message.rule} (${cause.name}: ${cause.message})`;
      this.#settleLoad.reject(
        new InvalidOptionError(
          `handle("${this.#kind}").file`,
          why,
          cause === undefined ? undefined : { cause },
        ),
      );
      return this.kill();
    }
    if (message.type === "ended") this.#memoryBytes = message.memoryBytes;
    if (message.attempt === this.#attempts) this.#current?.received(message);
  }

  #ended(end: CarrierEnd): void {
    const { outOfMemory, signal, exitCode, detail } = end;
    const job = this.#current?.job;
    const subject = job === undefined ? `Kind ${this.#kind}` : `Job ${job}`;
    const error = new HandlerCrashedError(
      `${subject}: the ${this.#isolate.in} of its handler ${howItEnded(end, this.#isolate)}`,
      outOfMemory,
      signal,
      exitCode,
      // The text of Node for a full heap is a native stack.
      detail === "" || outOfMemory ? undefined : { cause: new Error(detail) },
    );
    this.#settleLoad.reject(error);
    this.#current?.crashed(error);
  }
}

function howItEnded({ outOfMemory, signal, exitCode }: CarrierEnd, { memoryBytes }: ResolvedIsolate): string {
  const limit = memoryBytes === undefined ? "" : ` (more than ${Math.round(memoryBytes / 1_048_576)} MB)`;
  if (outOfMemory) return `ran out of memory${limit}. Raise \`memory\`, or split the work.`;
  if (signal === "SIGKILL")
    return "was killed by SIGKILL, by a person or because the machine ran out of memory.";
  return signal === null
    ? `ended with exit code ${exitCode} before the handler had returned.`
    : `was killed by ${signal}.`;
}
