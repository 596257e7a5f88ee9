import { AsyncLocalStorage } from "node:async_hooks";
import { InvalidOptionError } from "../../errors.ts";
import { toMs, type Duration } from "../../model/duration.ts";
import { requireFunction } from "../../model/options.ts";
import { checkFraction, toReportText } from "../../model/progress.ts";
import { validate } from "../../model/standard-schema.ts";
import type { Logger, LogLevel } from "../../runtime/logger.ts";
import { Completion } from "../completion.ts";
import type { HandlerContext, SignalOptions } from "../handler.ts";
import type { CallResult, CallName, ChildMessage, ContextValues, ReportName, ToChild } from "./messages.ts";
import { ReportBuffer } from "./report-buffer.ts";
import { fromSent, toSent } from "./sent-error.ts";

type Send = (message: ChildMessage) => void;

/** The name of the step whose function runs, for calls within it. */
const insideStep = new AsyncLocalStorage<string>();

/** Errors that came from the worker, by their numbers: thrown on, they are the same errors there. */
const refs = new WeakMap<object, number>();

export function refOf(thrown: unknown): number | undefined {
  return typeof thrown === "object" && thrown !== null ? refs.get(thrown) : undefined;
}

type Waiting = { readonly resolve: (value: unknown) => void; readonly reject: (error: unknown) => void };

/** The handler's context in its own thread or process. Each call is a message to the worker, which has the lease and the database. */
export class ChildContext {
  readonly #run: ToChild & { type: "run" };
  readonly #send: Send;
  readonly #aborting = new AbortController();
  readonly #waiting = new Map<number, Waiting>();
  readonly #works = new Map<number, { readonly name: string; readonly work: () => unknown }>();
  readonly #calls: Completion<unknown>[] = [];
  readonly #reports = new ReportBuffer((name, args) => this.#report(name, args));
  readonly #startedAt = performance.now();
  #totalMs: number;
  #last = 0;

  constructor(run: ToChild & { type: "run" }, send: Send) {
    this.#run = run;
    this.#send = send;
    this.#totalMs = run.timeoutMs;
  }

  /** For the handler. */
  get context(): HandlerContext {
    const values: ContextValues = this.#run.context;
    return {
      ...values,
      signal: this.#aborting.signal,
      logger: this.#logger({}),
      step: (name, work) => this.#step(name, work) as never,
      sleep: (until) => this.#call("sleep", [until]) as Promise<void>,
      waitForSignal: (name: string, options?: SignalOptions) => this.#waitForSignal(name, options) as never,
      checkpoint: (value) => this.#call("checkpoint", [value]) as Promise<void>,
      lastCheckpoint: () => this.#call("lastCheckpoint", []) as never,
      results: (definition?: { kind: string }) => this.#call("results", [definition?.kind ?? null]) as never,
      again: (next) => this.#call("again", [next]) as Promise<void>,
      progress: (fraction, note) => {
        checkFraction(fraction);
        this.#reports.progress(fraction, note === undefined ? note : toReportText(note, "progress(note)"));
      },
      log: (text) => this.#reports.log(toReportText(text, "log(text)")),
      extend: (duration) => this.#extend(duration),
      complete: () => {
        throw this.#refused("complete", "return the result, or write in another kind that continues with it");
      },
      continueWith: () => {
        throw this.#refused("continueWith", "let a kind without `isolate` start the next job");
      },
      spawn: () => {
        throw this.#refused("spawn", "let a kind without `isolate` start the children");
      },
      waitForChildren: () => {
        throw this.#refused("waitForChildren", "let a kind without `isolate` start the children");
      },
    } as Omit<HandlerContext, "tx"> as HandlerContext;
  }

  abort(reason: unknown): void {
    this.#aborting.abort(this.#received(reason));
  }

  /** The worker's reply to a call. */
  reply(call: number, result: CallResult): void {
    const waiting = this.#waiting.get(call);
    this.#waiting.delete(call);
    this.#works.delete(call);
    if (waiting === undefined) return;
    if ("error" in result) waiting.reject(this.#received(result.error));
    else waiting.resolve(result.value);
  }

  /** The job does not remember this step: run its function. */
  async work(call: number): Promise<void> {
    const { attempt } = this.#run;
    const step = this.#works.get(call);
    if (step === undefined) return;
    const { name, work } = step;
    try {
      const value = await insideStep.run(name, async () => await work());
      this.#trySend({ type: "worked", attempt, call, result: { value } }, `result of step "${name}"`);
    } catch (error) {
      this.#send({ type: "worked", attempt, call, result: { error: toSent(error, refOf(error)) } });
    }
  }

  /** Wait for calls that the handler did not await, and throw the failure of one. */
  async ended(): Promise<void> {
    this.#reports.flush();
    for (const call of this.#calls) await call.ended();
    const failed = this.#calls.find((call) => call.unhandled !== undefined)?.unhandled;
    if (failed !== undefined) throw failed.error;
  }

  #step(name: string, work: () => unknown): Promise<unknown> {
    return this.#call("step", [name], (call) => {
      requireFunction(`step("${name}")`, work);
      this.#works.set(call, { name, work });
    });
  }

  #waitForSignal(name: string, { schema, ...options }: SignalOptions = {}): Promise<unknown> {
    const call = this.#call("waitForSignal", [name, options]);
    if (schema === undefined) return call;
    const { kind } = this.#run.context;
    return call.then((payload) =>
      payload === undefined ? undefined : validate(schema, payload, { kind, root: `signal ${name}` }),
    );
  }

  /** The same rule as in the worker, whose reply would come too late for the caller. */
  #extend(duration: Duration): number {
    const { maxTimeoutMs, context } = this.#run;
    const forMs = toMs(duration, "extend(duration)");
    if (maxTimeoutMs === undefined)
      throw new InvalidOptionError(
        "extend",
        `needs a bound: declare maxTimeout for ${context.kind}, as in maxTimeout: "2h"`,
      );
    const ranMs = performance.now() - this.#startedAt;
    this.#totalMs = Math.max(this.#totalMs, Math.min(ranMs + forMs, maxTimeoutMs));
    this.#report("extend", [forMs]);
    return Math.max(0, Math.round(this.#totalMs - ranMs));
  }

  #call(name: CallName, args: readonly unknown[], prepare?: (call: number) => void): Completion<unknown> {
    const completion = Completion.of(async () => {
      const outer = insideStep.getStore();
      if (outer !== undefined && (name === "step" || name === "sleep" || name === "waitForSignal"))
        throw new InvalidOptionError(
          "step",
          `was called inside step "${outer}". Steps, sleeps and waits do not nest: call it after that step`,
        );
      const call = ++this.#last;
      prepare?.(call);
      return await new Promise<unknown>((resolve, reject) => {
        this.#waiting.set(call, { resolve, reject });
        this.#trySend({ type: "call", attempt: this.#run.attempt, call, name, args }, `argument of ${name}`);
      });
    });
    this.#calls.push(completion);
    return completion;
  }

  #report(name: ReportName, args: readonly unknown[]): void {
    this.#send({ type: "report", attempt: this.#run.attempt, name, args });
  }

  #logger(bound: object): Logger {
    const at = (level: LogLevel) => (fields: object, message: string) => {
      try {
        this.#report("logger", [level, plain({ ...bound, ...fields }), message]);
      } catch {
        // A log line must not be able to fail a job.
      }
    };
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => this.#logger({ ...bound, ...fields }),
    };
  }

  #received(sent: unknown): Error {
    const error = fromSent(sent);
    const { ref } = sent as { ref?: number };
    if (ref !== undefined) refs.set(error, ref);
    return error;
  }

  #trySend(message: ChildMessage, what: string): void {
    try {
      this.#send(message);
    } catch (error) {
      throw new InvalidOptionError(what, "cannot be sent to the worker: pass JSON", { cause: error });
    }
  }

  #refused(what: string, instead: string): InvalidOptionError {
    const { kind } = this.#run.context;
    return new InvalidOptionError(what, `is not possible in ${kind}, whose handler is isolated: ${instead}`);
  }
}

/** Fields of a log line that can be sent: functions and the like become text. */
function plain(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => {
      try {
        return [key, structuredClone(value)];
      } catch {
        return [key, String(value)];
      }
    }),
  );
}
