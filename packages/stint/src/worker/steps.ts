import { AsyncLocalStorage } from "node:async_hooks";
import type { Db } from "../db/db.ts";
import { InvalidOptionError, LeaseLostError, StepOrderError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import type { ClaimedJob } from "../model/job.ts";
import { encodeJson } from "../model/json.ts";
import { checkName } from "../model/names.ts";
import { refuseUnknownKeys, requireFunction, requireOneOf } from "../model/options.ts";
import { validate, type StandardSchema } from "../model/standard-schema.ts";
import { checkStepName, mostSteps, tooManySteps, waitName, type StepType } from "../model/steps.ts";
import { receiveSignal } from "../sql/signals.ts";
import { rememberedSteps, stepResult, type StepRecord } from "../sql/steps.ts";
import { Completion } from "./completion.ts";
import type { SignalOptions } from "./handler.ts";
import type { StepWriter } from "./fenced-writer.ts";
import { Suspended, type Suspension } from "./suspension.ts";
import { untilReachable } from "./until-reachable.ts";

export type StepsDeps = {
  readonly db: Db;
  readonly stepWriter: Pick<StepWriter, "write">;
  readonly maxResultBytes: number;
};

/** What the steps of a handler need of its attempt. */
export type AttemptOfSteps = {
  readonly job: ClaimedJob;
  readonly aborted: Error | undefined;
  /** Whether the handler has ended. */
  readonly over: boolean;
  /** The signals that the kind declares; undefined: any. */
  readonly signals: readonly string[] | undefined;
  /** The handler does something: it is not stalled. */
  onActivity(): void;
};

/** The name of the step whose function runs, for calls within it. */
const insideStep = new AsyncLocalStorage<string>();

/** The steps, sleeps and waits of one attempt. Created by the first of them. */
export class AttemptSteps {
  readonly #attempt: AttemptOfSteps;
  readonly #deps: StepsDeps;
  readonly #names = new Set<string>();
  readonly #waits = new Map<string, number>();
  readonly #calls: Completion<unknown>[] = [];
  #seq = 0;
  #memory: Promise<Memory> | undefined;
  #suspension: Suspension | undefined;

  constructor(attempt: AttemptOfSteps, deps: StepsDeps) {
    this.#attempt = attempt;
    this.#deps = deps;
  }

  /** Set once the handler sleeps or waits: the attempt ends with it, whatever the handler does then. */
  get suspension(): Suspension | undefined {
    return this.#suspension;
  }

  step<T>(name: string, work: () => Promise<T> | T): Promise<T> {
    return this.#call(() => {
      const checked = checkStepName(name);
      requireFunction(`step("${checked}")`, work);
      const seq = this.#next("step", checked);
      return async () => await this.#step(seq, checked, work);
    });
  }

  sleep(until: Duration | Date): Promise<void> {
    return this.#call(() => {
      const wake = toWakeTime(until);
      const name = this.#waitName("sleep", "");
      const seq = this.#next("sleep", name);
      return async () => {
        const record = await this.#remembered(seq, name, "sleep");
        if (record !== undefined && !record.isAsleep) return;
        if (record === undefined && wake === 0) return;
        this.#suspend({ seq, name, awaits: null, until: wake });
      };
    });
  }

  waitForSignal(signal: string, options: SignalOptions = {}): Promise<unknown> {
    return this.#call(() => {
      const what = `waitForSignal("${checkName(signal, "waitForSignal(name)")}")`;
      const { signals } = this.#attempt;
      if (signals !== undefined) requireOneOf("waitForSignal(name)", signal, signals);
      refuseUnknownKeys(what, options, ["timeout", "schema"]);
      const timeoutMs = options.timeout === undefined ? null : toMs(options.timeout, `${what}.timeout`);
      const schema =
        options.schema === undefined ? undefined : requireSchema(`${what}.schema`, options.schema);
      const name = this.#waitName("signal", signal);
      const seq = this.#next("signal", name);
      return async () => {
        const { job } = this.#attempt;
        const record = await this.#remembered(seq, name, "signal");
        const wait = { seq, step: name, signal };
        const { outcome, payload } =
          record === undefined || record.isPending
            ? await this.#reach(async () => await receiveSignal(this.#deps.db, job.fence, wait))
            : {
                outcome: record.isReceived ? "received" : "timed-out",
                payload: await this.#resultOf(record),
              };
        if (outcome === "lost") throw new LeaseLostError(job.fence.job, job.fence.epoch);
        if (outcome === "none") this.#suspend({ seq, name, awaits: signal, until: timeoutMs });
        if (outcome === "timed-out") return undefined;
        return schema === undefined
          ? payload
          : await validate(schema, payload, { kind: job.kind, root: `signal ${signal}` });
      };
    });
  }

  /** Waits until every call has ended, also those that the handler did not await. Never rejects. */
  async ended(): Promise<void> {
    for (const call of this.#calls) await call.ended();
  }

  /** The failure of a call that the handler did not await, if there is one. */
  get unhandled(): { readonly error: unknown } | undefined {
    return this.#calls.find((call) => call.unhandled !== undefined)?.unhandled;
  }

  /** Remembered steps that the handler did not come to in this attempt. */
  async unused(): Promise<string[]> {
    const memory = await this.#memory?.catch(() => undefined);
    return [...(memory?.byName.keys() ?? [])].filter((name) => !this.#names.has(name));
  }

  /** The order of calls is decided before anything is awaited: steps may run in parallel. */
  #call<T>(begin: () => () => Promise<T>): Promise<T> {
    const call = Completion.of(async () => {
      const { job, over, aborted } = this.#attempt;
      if (over)
        throw new InvalidOptionError(
          "step",
          `was called after the handler of job ${job.fence.job} had ended`,
        );
      const outer = insideStep.getStore();
      if (outer !== undefined)
        throw new InvalidOptionError(
          "step",
          `was called inside step "${outer}". Steps, sleeps and waits do not nest: call it after that step`,
        );
      if (this.#suspension !== undefined) throw suspendedBy(job.fence.job, this.#suspension);
      const work = begin();
      if (aborted !== undefined) throw aborted;
      this.#attempt.onActivity();
      return await work();
    });
    this.#calls.push(call);
    return call;
  }

  #next(type: StepType, name: string): number {
    if (this.#names.has(name))
      throw new InvalidOptionError(
        `${type}("${name}")`,
        "was called twice in one attempt. Give each step its own name, such as its index or the key of its item",
      );
    if (this.#seq >= mostSteps) throw tooManySteps(this.#attempt.job.fence.job);
    this.#names.add(name);
    this.#seq += 1;
    return this.#seq;
  }

  #waitName(type: "sleep" | "signal", what: string): string {
    const first = waitName(type, what, 1);
    const count = (this.#waits.get(first) ?? 0) + 1;
    this.#waits.set(first, count);
    return waitName(type, what, count);
  }

  async #step<T>(seq: number, name: string, work: () => Promise<T> | T): Promise<T> {
    const record = await this.#remembered(seq, name, "step");
    if (record !== undefined) return (await this.#resultOf(record)) as T;
    const { job } = this.#attempt;
    const startedAt = performance.now();
    const value = await insideStep.run(name, async () => await work());
    const result =
      value === undefined
        ? null
        : encodeJson(value, {
            kind: job.kind,
            root: `result of step "${name}"`,
            maxBytes: this.#deps.maxResultBytes,
          });
    const tookMs = performance.now() - startedAt;
    const written = await this.#deps.stepWriter.write({ fence: job.fence, seq, name, result, tookMs });
    this.#attempt.onActivity();
    if (written === "lost") throw new LeaseLostError(job.fence.job, job.fence.epoch);
    if (written === "clash") throw new StepOrderError(job.fence.job, seq, name, name);
    return value;
  }

  /** The record of this step, if it has one. Refuses a handler that no longer calls the same steps in the same order. */
  async #remembered(seq: number, name: string, type: StepType): Promise<StepRecord | undefined> {
    const { job } = this.#attempt;
    // A job that was never claimed before remembers nothing.
    if (job.fence.epoch === 1) return undefined;
    const { bySeq, byName } = await (this.#memory ??= this.#read());
    const record = byName.get(name);
    if (record?.seq === seq && record.type === type) return record;
    const expected = bySeq.get(seq);
    if (expected !== undefined) throw new StepOrderError(job.fence.job, seq, name, expected.name);
    if (record !== undefined) throw new StepOrderError(job.fence.job, seq, name, name, record.seq);
    return undefined;
  }

  async #read(): Promise<Memory> {
    const records = await this.#reach(
      async () => await rememberedSteps(this.#deps.db, this.#attempt.job.fence.job),
    );
    return {
      bySeq: new Map(records.map((record) => [record.seq, record])),
      byName: new Map(records.map((record) => [record.name, record])),
    };
  }

  async #resultOf({ name, result, isLarge }: StepRecord): Promise<unknown> {
    if (!isLarge) return result;
    return await this.#reach(async () => await stepResult(this.#deps.db, this.#attempt.job.fence.job, name));
  }

  async #reach<T>(work: () => Promise<T>): Promise<T> {
    return await untilReachable(work, () => this.#attempt.aborted);
  }

  #suspend(suspension: Suspension): never {
    this.#suspension ??= suspension;
    throw suspendedBy(this.#attempt.job.fence.job, this.#suspension);
  }
}

function suspendedBy(job: string, { name, awaits }: Suspension): Suspended {
  return new Suspended(job, name, awaits ?? undefined);
}

type Memory = {
  readonly bySeq: ReadonlyMap<number, StepRecord>;
  readonly byName: ReadonlyMap<string, StepRecord>;
};

const lastTime = Date.UTC(9999, 11, 31);

function toWakeTime(until: Duration | Date): Date | number {
  if (!(until instanceof Date)) return toMs(until, "sleep(duration)");
  const ms = until.getTime();
  if (ms >= 0 && ms <= lastTime) return new Date(ms);
  throw new InvalidOptionError("sleep(date)", `must be a time from 1970 to 9999, got ${describe(until)}`);
}

function requireSchema(option: string, value: StandardSchema): StandardSchema {
  if (typeof (value as StandardSchema | null)?.["~standard"]?.validate === "function") return value;
  throw new InvalidOptionError(option, `must be a Standard Schema (zod, valibot, …), got ${describe(value)}`);
}
