import type { AttemptOutcome, ClaimedJob } from "./job.ts";
import type { Failure } from "./failure.ts";

/** The trace a job was enqueued in, as it travels in the row's meta under `trace`. Written as W3C Trace Context writes it. */
export type TraceContext = {
  readonly traceparent: string;
  readonly tracestate?: string;
  /** Attempts are traces of their own that point here: the job was to run later. */
  readonly link?: true;
};

/** Beside them, the `traceparent` of the first attempt that was recorded: later ones point to it, in whichever process they run. */
const firstAttempt = "first";

/** What is told of a job that is about to be enqueued. */
export type EnqueuingJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly key: string | undefined;
};

/** How an attempt ended, and where it left the job. */
export type AttemptEnd = {
  readonly outcome: AttemptOutcome;
  readonly state: string;
  readonly error?: Failure | undefined;
};

/** One attempt in a trace. */
export type AttemptTrace = {
  readonly traceId: string | undefined;
  /** Call so that what is traced inside belongs to this attempt. */
  run<T>(work: () => T): T;
  /** Answers what the job is to carry, as `traceparent`, if it goes back and the next attempt should point to this one. */
  ended(end: AttemptEnd): string | undefined;
};

/** An attempt whose outcome is on record. */
export type SettledAttempt = { readonly job: ClaimedJob; readonly trace: AttemptTrace | undefined };

/** Who is told of what happens, to make traces and metrics of it. `openTelemetry()` of "stint/opentelemetry" is one. */
export type Telemetry = {
  /** Send these jobs, each carrying the given context. */
  enqueue<T>(
    jobs: readonly EnqueuingJob[],
    send: (trace: TraceContext | undefined) => Promise<T>,
  ): Promise<T>;
  /** A claim brought these. */
  claimed(jobs: readonly ClaimedJob[], tookMs: number, worker: string): void;
  attempt(job: ClaimedJob, worker: string): AttemptTrace;
  /** The outcomes of these are on record. */
  settled?(attempts: readonly SettledAttempt[], tookMs: number, worker: string): void;
  /** Call so that nothing inside is traced: the statements of a worker's own loops would drown everything else. */
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

/** The context a job carries. Rubbish is none: meta may be written by anybody. */
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

/** The first attempt that was recorded, as `traceparent`. */
export function firstAttemptOf(meta: Readonly<Record<string, unknown>>): string | undefined {
  const trace = meta[reserved] as Readonly<Record<string, unknown>> | null | undefined;
  if (typeof trace !== "object" || trace === null) return undefined;
  const first = trace[firstAttempt];
  return isTraceparent(first) ? first : undefined;
}

/** Whether a first attempt can be noted in it. What somebody else keeps in its place stays as it is. */
export function takesFirstAttempt(meta: Readonly<Record<string, unknown>>): boolean {
  const trace = meta[reserved] as Readonly<Record<string, unknown>> | null | undefined;
  if (trace === undefined) return true;
  return typeof trace === "object" && trace !== null && !Array.isArray(trace) && !(firstAttempt in trace);
}

/** The id of the trace a job was enqueued in. */
export function traceIdOf(meta: Readonly<Record<string, unknown>>): string | undefined {
  // Most jobs carry none.
  if (meta[reserved] === undefined) return undefined;
  return traceparentPattern.exec(traceOf(meta)?.traceparent ?? "")?.[1];
}

/** Meta as JSON text with the context in it. A `trace` of the caller's own stays as it is. */
export function withTrace(meta: string | undefined, trace: TraceContext): string {
  const own = `"${reserved}":${JSON.stringify(trace)}`;
  if (meta === undefined || meta === "{}") return `{${own}}`;
  if (meta.includes(`"${reserved}"`) && Object.hasOwn(JSON.parse(meta) as object, reserved)) return meta;
  return `${meta.slice(0, -1)},${own}}`;
}
