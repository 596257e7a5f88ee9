import type { AttemptOutcome, ClaimedJob } from "./job.ts";
import type { Failure } from "./failure.ts";

/** The trace context of a job's enqueue, stored in `meta.trace` in the format of W3C Trace Context. */
export type TraceContext = {
  readonly traceparent: string;
  readonly tracestate?: string;
  /** The job was delayed: its attempts are separate traces that link to this one. */
  readonly link?: true;
};

/** The `traceparent` of the first recorded attempt: later attempts, in any process, link to it. */
const firstAttempt = "first";

/** A job that is about to be enqueued. */
export type EnqueuingJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly key: string | undefined;
};

/** The outcome of an attempt, and the job's state after it. */
export type AttemptEnd = {
  readonly outcome: AttemptOutcome;
  readonly state: string;
  readonly error?: Failure | undefined;
};

/** One attempt in a trace. */
export type AttemptTrace = {
  readonly traceId: string | undefined;
  /** Run the callback with this attempt as the active span. */
  run<T>(work: () => T): T;
  /** Returns the `traceparent` that the job must carry, if its next attempt should link to this one. */
  ended(end: AttemptEnd): string | undefined;
};

/** An attempt whose outcome is recorded. */
export type SettledAttempt = { readonly job: ClaimedJob; readonly trace: AttemptTrace | undefined };

/** Receives events for traces and metrics. `openTelemetry()` of "stint/opentelemetry" implements it. */
export type Telemetry = {
  /** Call `send` with the trace context of each job. */
  enqueue<T>(
    jobs: readonly EnqueuingJob[],
    send: (trace: TraceContext | undefined) => Promise<T>,
  ): Promise<T>;
  /** Called with the jobs of a claim. */
  claimed(jobs: readonly ClaimedJob[], tookMs: number, worker: string): void;
  attempt(job: ClaimedJob, worker: string): AttemptTrace;
  /** Called with attempts whose outcomes are recorded. */
  settled?(attempts: readonly SettledAttempt[], tookMs: number, worker: string): void;
  /** Run the callback untraced: statements of a worker's own loops would flood the traces. */
  quietly<T>(work: () => T): T;
  /** The same for a client whose database is there. */
  at?(server: { readonly address: string; readonly port: number | undefined }): Telemetry;
};

export const telemetryMethods = [
  "enqueue",
  "claimed",
  "attempt",
  "quietly",
] as const satisfies (keyof Telemetry)[];

const reserved = "trace";
const traceparentPattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

export function isTraceparent(text: unknown): text is string {
  return typeof text === "string" && traceparentPattern.test(text);
}

/** The trace context of a job. Invalid contents count as none: any client may write meta. */
export function traceOf(meta: Readonly<Record<string, unknown>>): TraceContext | undefined {
  const trace = meta[reserved] as Partial<TraceContext> | null | undefined;
  if (typeof trace !== "object" || trace === null) return undefined;
  const { traceparent, tracestate, link } = trace;
  if (!isTraceparent(traceparent)) return undefined;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(link === true ? { link } : {}),
  };
}

/** The `traceparent` of the first recorded attempt. */
export function firstAttemptOf(meta: Readonly<Record<string, unknown>>): string | undefined {
  const trace = meta[reserved] as Readonly<Record<string, unknown>> | null | undefined;
  if (typeof trace !== "object" || trace === null) return undefined;
  const first = trace[firstAttempt];
  return isTraceparent(first) ? first : undefined;
}

/** Whether the first attempt can be stored in it. Other contents of the property are kept. */
export function takesFirstAttempt(meta: Readonly<Record<string, unknown>>): boolean {
  const trace = meta[reserved] as Readonly<Record<string, unknown>> | null | undefined;
  if (trace === undefined) return true;
  return typeof trace === "object" && trace !== null && !Array.isArray(trace) && !(firstAttempt in trace);
}

/** The trace id of a job's enqueue. */
export function traceIdOf(meta: Readonly<Record<string, unknown>>): string | undefined {
  // Most jobs have none.
  if (meta[reserved] === undefined) return undefined;
  return traceparentPattern.exec(traceOf(meta)?.traceparent ?? "")?.[1];
}

/** Meta as JSON text with the trace context. A `trace` property of the caller is kept. */
export function withTrace(meta: string | undefined, trace: TraceContext): string {
  const own = `"${reserved}":${JSON.stringify(trace)}`;
  if (meta === undefined || meta === "{}") return `{${own}}`;
  if (meta.includes(`"${reserved}"`) && Object.hasOwn(JSON.parse(meta) as object, reserved)) return meta;
  return `${meta.slice(0, -1)},${own}}`;
}
