import { InvalidOptionError, TimedOutError } from "../../errors.ts";
import { read } from "../../model/safe-read.ts";
import { logLevels } from "../../runtime/logger.ts";
import type { HandlerContext } from "../handler.ts";
import type { Carrier } from "./carrier.ts";
import {
  valueNames,
  type CallResult,
  type CallName,
  type ChildMessage,
  type ContextValues,
  type HandlerEnd,
  type ReportName,
} from "./messages.ts";
import { fromSent, toSent } from "./sent-error.ts";

export type AttemptLimits = {
  readonly timeoutMs: number;
  readonly maxTimeoutMs: number | undefined;
  readonly leaseMs: number;
  /** How long the worker waits for a handler whose signal has aborted. */
  readonly abortMs: number;
};

type Waiting = { readonly resolve: (value: unknown) => void; readonly reject: (error: unknown) => void };

/** One attempt of an isolated handler: carries its calls to the context, and the end of the handler back. */
export class IsolatedAttempt {
  readonly #number: number;
  readonly #context: HandlerContext;
  readonly #limits: AttemptLimits;
  readonly #carrier: Carrier;
  /** Steps whose functions run in the child. */
  readonly #working = new Map<number, Waiting>();
  /** Errors that were sent to the child, by number: what it throws on is the same error. */
  readonly #sent: unknown[] = [];
  /** Whether the child has received the job. */
  hasBegun = false;
  #end: Waiting | undefined;
  #killing: NodeJS.Timeout | undefined;

  constructor(number: number, context: HandlerContext, limits: AttemptLimits, carrier: Carrier) {
    this.#number = number;
    this.#context = context;
    this.#limits = limits;
    this.#carrier = carrier;
  }

  get job(): string {
    return this.#context.id;
  }

  async run(): Promise<unknown> {
    const { signal } = this.#context;
    const abort = (): void => this.#abort(signal.reason as Error);
    try {
      return await new Promise<unknown>((resolve, reject) => {
        this.#end = { resolve, reject };
        this.#start();
        signal.addEventListener("abort", abort, { once: true });
        if (signal.aborted) abort();
      });
    } finally {
      clearTimeout(this.#killing);
      signal.removeEventListener("abort", abort);
      this.#end = undefined;
    }
  }

  received(message: ChildMessage): void {
    if (message.type === "began") this.hasBegun = true;
    else if (message.type === "ended") this.#ended(message.end);
    else if (message.type === "call") void this.#call(message.call, message.name, message.args);
    else if (message.type === "report") this.#report(message.name, message.args);
    else if (message.type === "worked") this.#worked(message.call, message.result);
  }

  /** The child has ended before the handler has. */
  crashed(error: Error): void {
    // The steps first: their attempt waits for them before it ends.
    for (const { reject } of this.#working.values()) reject(error);
    this.#working.clear();
    const { signal } = this.#context;
    this.#end?.reject(signal.aborted ? signal.reason : error);
  }

  #start(): void {
    const { timeoutMs, maxTimeoutMs } = this.#limits;
    const context = Object.fromEntries(
      valueNames.map((name) => [name, this.#context[name]]),
    ) as unknown as ContextValues;
    try {
      this.#carrier.send({ type: "run", attempt: this.#number, context, timeoutMs, maxTimeoutMs });
    } catch (error) {
      throw new InvalidOptionError(
        "payload",
        `cannot be sent to the ${this.#context.kind} handler: its schema makes a value that is not plain data`,
        { cause: error },
      );
    }
  }

  /** Ask the handler to stop, and end it if it does not: before the worker decides without it. */
  #abort(reason: Error): void {
    const { abortMs, leaseMs } = this.#limits;
    this.#carrier.send({ type: "abort", attempt: this.#number, reason: this.#toSent(reason) });
    const patienceMs = reason instanceof TimedOutError ? Math.min(abortMs, leaseMs / 2) : abortMs;
    this.#killing = setTimeout(() => this.#carrier.kill(), patienceMs * 0.8);
  }

  #ended(end: HandlerEnd): void {
    if ("error" in end) this.#end?.reject(this.#fromSent(end.error));
    else if ("outcome" in end) this.#end?.resolve(toOutcome(end.outcome));
    // A function cannot be stored either: the same rules apply as to a handler in this process.
    else this.#end?.resolve("value" in end ? end.value : () => undefined);
  }

  async #call(call: number, name: CallName, args: readonly unknown[]): Promise<void> {
    let result: CallResult;
    try {
      result = { value: await this.#inContext(call, name, args) };
    } catch (error) {
      result = { error: this.#toSent(error) };
    }
    this.#carrier.send({ type: "reply", attempt: this.#number, call, result });
  }

  /** The context checks every argument, as it does for a handler in this process. */
  #inContext(call: number, name: CallName, [first, second]: readonly unknown[]): Promise<unknown> {
    const context = this.#context;
    switch (name) {
      case "step":
        return context.step(first as string, () => this.#work(call));
      case "sleep":
        return context.sleep(first as never);
      case "waitForSignal":
        return context.waitForSignal(first as string, second as never);
      case "checkpoint":
        return context.checkpoint(first);
      case "lastCheckpoint":
        return context.lastCheckpoint();
      case "again":
        return context.again(first as never);
      case "results":
      default:
        return first === null ? context.results() : context.results({ kind: first } as never);
    }
  }

  /** Run the function of a step in the child. */
  #work(call: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#end === undefined) return reject(new Error("the handler has ended"));
      this.#working.set(call, { resolve, reject });
      this.#carrier.send({ type: "work", attempt: this.#number, call });
    });
  }

  #worked(call: number, result: CallResult): void {
    const working = this.#working.get(call);
    this.#working.delete(call);
    if ("error" in result) working?.reject(this.#fromSent(result.error));
    else working?.resolve(result.value);
  }

  #report(name: ReportName, [first, second, third]: readonly unknown[]): void {
    const context = this.#context;
    try {
      if (name === "progress") context.progress(first as number, second as string | undefined);
      else if (name === "log") context.log(first as string);
      else if (name === "extend") context.extend(first as number);
      else {
        const level = logLevels.find((each) => each === first) ?? "info";
        context.logger[level](Object(second) as object, String(third));
      }
    } catch (error) {
      context.logger.warn({ err: error }, `a call of ${name} by an isolated handler was refused`);
    }
  }

  #toSent(error: unknown): ReturnType<typeof toSent> {
    return toSent(error, this.#sent.push(error) - 1);
  }

  #fromSent(sent: unknown): unknown {
    const ref = read(sent, "ref");
    return typeof ref === "number" && ref in this.#sent ? this.#sent[ref] : fromSent(sent);
  }
}

const outcomeBrand = Symbol.for("stint.outcome");

/** The outcome with its symbol, for the checks that every returned outcome passes. Those that belong to a plan cannot be sent. */
function toOutcome(outcome: unknown): unknown {
  const type = read(outcome, "type");
  const isKnown = type === "snooze" || type === "cancel" || type === "park";
  return { ...Object(outcome), type: isKnown ? type : "unknown", [outcomeBrand]: true };
}
