import {
  context,
  createContextKey,
  createTraceState,
  isSpanContextValid,
  metrics,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Context,
  type Histogram,
  type Link,
  type MeterProvider,
  type Span,
  type SpanContext,
  type TracerProvider,
} from "@opentelemetry/api";
import type { ClaimedJob } from "../model/job.ts";
import {
  traceOf,
  type AttemptEnd,
  type AttemptTrace,
  type EnqueuingJob,
  type Telemetry,
  type TraceContext,
} from "../model/telemetry.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import { version } from "../version.ts";
import { durationBounds, names, suppressTracing, systemAttributes } from "./semconv.ts";

export type OpenTelemetryOptions = {
  /** Default: the one that was registered globally. */
  tracerProvider?: TracerProvider;
  meterProvider?: MeterProvider;
};

/** First attempts that are remembered so that the next one can point to them. */
const mostRemembered = 1_000;
const silent = createContextKey(suppressTracing);

/**
 * Spans and metrics for OpenTelemetry: pass it as `createStint({ telemetry: openTelemetry() })`.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  refuseUnknownKeys("openTelemetry", options, ["tracerProvider", "meterProvider"]);
  return make(options, undefined);
}

type Server = Parameters<NonNullable<Telemetry["at"]>>[0];

function make(options: OpenTelemetryOptions, server: Server | undefined): Telemetry {
  const tracer = (options.tracerProvider ?? trace.getTracerProvider()).getTracer("stint", version);
  const meter = (options.meterProvider ?? metrics.getMeterProvider()).getMeter("stint", version);
  const counted = { unit: "{message}" };
  const timed = { unit: "s", advice: { explicitBucketBoundaries: durationBounds } };
  const sent = meter.createCounter(names.sent, counted);
  const consumed = meter.createCounter(names.consumed, counted);
  const operationDuration = meter.createHistogram(names.operationDuration, timed);
  const processDuration = meter.createHistogram(names.processDuration, timed);
  const system = { ...systemAttributes(), ...serverAttributes(server) };
  const firsts = new Firsts();

  return {
    async enqueue(jobs, send) {
      const operation = { ...system, ...operationOf("enqueue", "send"), ...destinationOf(jobs) };
      const attributes = { ...operation, ...enqueuedAttributes(jobs) };
      // Its context is what the jobs carry, which makes it the producer, of one job as of many.
      const span = tracer.startSpan(nameOf("enqueue", jobs), { kind: SpanKind.PRODUCER, attributes });
      const startedAt = performance.now();
      let error: Attributes = {};
      try {
        const inside = trace.setSpan(context.active(), span);
        return await context.with(inside, () => send(written(span.spanContext())));
      } catch (thrown) {
        error = failed(span, { class: classOf(thrown), message: String(thrown) });
        throw thrown;
      } finally {
        sent.add(jobs.length, { ...operation, ...error });
        took(operationDuration, startedAt, { ...operation, ...error });
        span.end();
      }
    },

    claimed(jobs, tookMs, worker) {
      const operation = { ...system, ...operationOf("claim", "receive"), ...destinationOf(jobs) };
      const startTime = Date.now() - tookMs;
      const attributes = { ...operation, [names.clientId]: worker, [names.batchCount]: jobs.length };
      tracer
        .startSpan(nameOf("claim", jobs), { kind: SpanKind.CLIENT, startTime, attributes }, ROOT_CONTEXT)
        .end();
      consumed.add(jobs.length, operation);
      operationDuration.record(tookMs / 1_000, operation);
    },

    attempt(job, worker): AttemptTrace {
      const operation = { ...system, ...operationOf("process", "process"), [names.destination]: job.queue };
      const { parent, links } = placeOf(job, firsts.of(job));
      const span = tracer.startSpan(
        `process ${job.queue}`,
        {
          kind: SpanKind.CONSUMER,
          links,
          attributes: { ...operation, ...processedAttributes(job), [names.clientId]: worker },
        },
        parent,
      );
      const inside = trace.setSpan(parent, span);
      const spanContext = span.spanContext();
      const startedAt = performance.now();
      let over = false;
      return {
        traceId: isSpanContextValid(spanContext) ? spanContext.traceId : undefined,
        run: (work) => context.with(inside, work),
        ended(end) {
          if (over) return;
          over = true;
          const error = end.error === undefined ? {} : failed(span, end.error);
          span.setAttributes({ [names.outcome]: end.outcome, [names.state]: end.state });
          took(processDuration, startedAt, { ...operation, [names.kind]: job.kind, ...error });
          span.end();
          firsts.note(job, end, spanContext);
        },
      };
    },

    quietly: (work) => context.with(ROOT_CONTEXT.setValue(silent, true), work),

    at: (where) => make(options, where),
  };
}

/** A job that runs at once is part of the trace it was enqueued in; one that runs later, or again, points to it. */
function placeOf(job: ClaimedJob, first: SpanContext | undefined): { parent: Context; links: Link[] } {
  const carried = traceOf(job.meta);
  const created = carried === undefined ? undefined : read(carried);
  const links: Link[] = first === undefined ? [] : [{ context: first }];
  if (created === undefined) return { parent: ROOT_CONTEXT, links };
  if (carried?.link === undefined && job.run === 1)
    return { parent: trace.setSpanContext(ROOT_CONTEXT, created), links };
  return { parent: ROOT_CONTEXT, links: [{ context: created }, ...links] };
}

/** First attempts of jobs that will be tried again, the latest of them: another process does not know them. */
class Firsts {
  readonly #byJob = new Map<string, SpanContext>();

  of({ fence }: ClaimedJob): SpanContext | undefined {
    return this.#byJob.get(fence.job);
  }

  note({ fence: { job } }: ClaimedJob, { state }: AttemptEnd, span: SpanContext): void {
    if (state === "succeeded" || state === "dead" || state === "cancelled") {
      this.#byJob.delete(job);
      return;
    }
    if (this.#byJob.has(job) || !isSpanContextValid(span)) return;
    this.#byJob.set(job, span);
    if (this.#byJob.size <= mostRemembered) return;
    for (const oldest of this.#byJob.keys()) return void this.#byJob.delete(oldest);
  }
}

function serverAttributes(server: Server | undefined): Attributes {
  if (server === undefined) return {};
  const { address, port } = server;
  return { [names.serverAddress]: address, ...(port === undefined ? {} : { [names.serverPort]: port }) };
}

function operationOf(name: string, type: string): Attributes {
  return { [names.operationName]: name, [names.operationType]: type };
}

/** The queue, where all of them are for the same one. */
function queueOf(jobs: readonly { queue: string }[]): string | undefined {
  const [first] = jobs;
  return jobs.every(({ queue }) => queue === first?.queue) ? first?.queue : undefined;
}

function nameOf(operation: string, jobs: readonly { queue: string }[]): string {
  const queue = queueOf(jobs);
  return queue === undefined ? operation : `${operation} ${queue}`;
}

function destinationOf(jobs: readonly { queue: string }[]): Attributes {
  const queue = queueOf(jobs);
  return queue === undefined ? {} : { [names.destination]: queue };
}

function enqueuedAttributes(jobs: readonly EnqueuingJob[]): Attributes {
  const [only] = jobs;
  if (jobs.length !== 1 || only === undefined) return { [names.batchCount]: jobs.length };
  return {
    [names.messageId]: only.id,
    [names.kind]: only.kind,
    ...(only.key === undefined ? {} : { [names.key]: only.key }),
  };
}

function processedAttributes({ fence, kind, key, attempt, run }: ClaimedJob): Attributes {
  return {
    [names.messageId]: fence.job,
    [names.kind]: kind,
    ...(key === null ? {} : { [names.key]: key }),
    [names.attempt]: attempt,
    [names.epoch]: fence.epoch,
    [names.run]: run,
  };
}

/** Say what went wrong. Answers what the metrics say of it. */
function failed(
  span: Span,
  error: { class: string; message: string; stack?: string | undefined },
): Attributes {
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
  span.setAttribute(names.errorType, error.class);
  span.recordException({
    name: error.class,
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
  });
  return { [names.errorType]: error.class };
}

function classOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown;
}

function took(histogram: Histogram, startedAt: number, attributes: Attributes): void {
  histogram.record((performance.now() - startedAt) / 1_000, attributes);
}

/** As W3C Trace Context writes it; nothing where there is no trace. */
function written(span: SpanContext): TraceContext | undefined {
  if (!isSpanContextValid(span)) return undefined;
  const flags = (span.traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, "0");
  const tracestate = span.traceState?.serialize() ?? "";
  return {
    traceparent: `00-${span.traceId}-${span.spanId}-${flags}`,
    ...(tracestate === "" ? {} : { tracestate }),
  };
}

function read({ traceparent, tracestate }: TraceContext): SpanContext | undefined {
  const [, traceId = "", spanId = "", flags = ""] = traceparent.split("-");
  const span: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  };
  return isSpanContextValid(span) ? span : undefined;
}
