import type { AttemptOutcome, ClaimedJob } from "./job.ts";
import type { Failure } from "./failure.ts";

/** The trace a job was enqueued in, as it travels in the row's meta under `trace`. Written as W3C Trace Context writes it. */
export type TraceContext = {
  readonly traceparent: string;
  readonly tracestate?: string;
  /** Attempts are traces of their own that point here: the job was to run later. */
  readonly link?: true;
};

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
  ended(end: AttemptEnd): void;
};

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

/** The context a job carries. Rubbish is none: meta may be written by anybody. */
export function traceOf(meta: Readonly<Record<string, unknown>>): TraceContext | undefined {
  const trace = meta[reserved] as Partial<TraceContext> | null | undefined;
  if (typeof trace !== "object" || trace === null) return undefined;
  const { traceparent, tracestate, link } = trace;
  if (typeof traceparent !== "string" || !traceparentPattern.test(traceparent)) return undefined;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(link === true ? { link } : {}),
  };
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
