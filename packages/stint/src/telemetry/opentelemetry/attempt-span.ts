import {
  context,
  INVALID_TRACEID,
  ROOT_CONTEXT,
  SpanStatusCode,
  type Attributes,
  type Context,
  type Link,
  type Span,
  type SpanContext,
  type Tracer,
} from "@opentelemetry/api";
import type { ClaimedJob } from "../../model/job.ts";
import {
  firstAttemptOf,
  takesFirstAttempt,
  type AttemptEnd,
  type AttemptTrace,
} from "../../model/telemetry.ts";
import type { Instruments } from "./instruments.ts";
import type { SpanAttributes } from "./span-attributes.ts";
import { names } from "./semconv.ts";
import { contextWith, isSampled, read, written, type Creation } from "./trace-context.ts";

/** After the sampler drops a job with an unsampled enqueue, similar jobs are dropped for this long without asking it. */
const unsampledMs = 1_000;

export type AttemptSpanDeps = { readonly tracer: Tracer | undefined; readonly instruments: Instruments };

/** The span of one attempt, if it is sampled, and its duration. Thousands are made each second, most of them unsampled. */
export class AttemptSpan implements AttemptTrace {
  readonly traceId: string | undefined;
  /** The context that other spans link to; undefined if the span is not recorded. */
  readonly recorded: SpanContext | undefined;
  readonly #job: ClaimedJob;
  readonly #spanAttributes: SpanAttributes;
  readonly #instruments: Instruments;
  readonly #startedAt = performance.now();
  readonly #span: Span | undefined;
  readonly #inside: Context;
  #over = false;

  constructor(
    deps: AttemptSpanDeps,
    shared: SpanAttributes,
    job: ClaimedJob,
    creation: Creation | undefined,
    worker: string,
  ) {
    this.#job = job;
    this.#spanAttributes = shared;
    this.#instruments = deps.instruments;
    const { tracer } = deps;
    // A job that runs at once belongs to the trace of its enqueue. A delayed or replayed job links to it.
    const parent = creation !== undefined && job.run === 1 && !isForLater(job) ? creation : undefined;
    if (tracer === undefined || isLeftOut(parent, shared, this.#startedAt)) {
      this.#inside = parent?.context ?? ROOT_CONTEXT;
      this.traceId = parent?.span.traceId;
      return;
    }
    const links = linksOf(job, parent === undefined ? creation : undefined);
    const options = links === undefined ? shared.options : { ...shared.options, links };
    const span = tracer.startSpan(shared.name, options, parent?.context ?? ROOT_CONTEXT);
    const spanContext = span.spanContext();
    this.#inside = contextWith(span);
    // Cheaper than `isSpanContextValid`, which matches both ids: an SDK makes valid ids, and without an SDK there is no id.
    this.traceId = spanContext.traceId === INVALID_TRACEID ? undefined : spanContext.traceId;
    if (span.isRecording()) {
      span.setAttributes(shared.others);
      span.setAttributes(attributesOf(job, worker));
      this.#span = span;
      this.recorded = spanContext;
    } else if (parent?.sampled === false) shared.unsampledUntil = this.#startedAt + unsampledMs;
  }

  run<T>(work: () => T): T {
    return context.with(this.#inside, work);
  }

  ended(end: AttemptEnd): string | undefined {
    if (this.#over) return undefined;
    this.#over = true;
    const { error } = end;
    const attributes =
      error === undefined ? this.#spanAttributes.attributes : this.#spanAttributes.failed(error.class);
    this.#instruments.processed(performance.now() - this.#startedAt, attributes);
    const span = this.#span;
    if (span === undefined) return undefined;
    if (error !== undefined) markFailed(span, error);
    span.setAttribute(names.outcome, end.outcome);
    span.setAttribute(names.state, end.state);
    span.end();
    return goesBack(end) ? this.#asFirst() : undefined;
  }

  #asFirst(): string | undefined {
    if (this.recorded === undefined || !isSampled(this.recorded)) return undefined;
    return takesFirstAttempt(this.#job.meta) ? written(this.recorded)?.traceparent : undefined;
  }
}

/** Call it only for a job that carries a trace. */
function isForLater({ meta }: ClaimedJob): boolean {
  return (meta["trace"] as { link?: unknown }).link === true;
}

/** Most samplers drop a job with an unsampled enqueue. The sampler is asked once a second in case it does not. */
function isLeftOut(parent: Creation | undefined, { unsampledUntil }: SpanAttributes, now: number): boolean {
  return parent?.sampled === false && now < unsampledUntil;
}

function linksOf({ meta }: ClaimedJob, creation: Creation | undefined): Link[] | undefined {
  const first = firstAttemptOf(meta);
  if (first === undefined && creation === undefined) return undefined;
  const links: Link[] = creation === undefined ? [] : [{ context: creation.span }];
  const span = first === undefined ? undefined : read(first);
  if (span !== undefined) links.push({ context: span });
  return links;
}

function goesBack({ state }: AttemptEnd): boolean {
  return state !== "succeeded" && state !== "dead" && state !== "cancelled";
}

function attributesOf({ fence, key, attempt, run }: ClaimedJob, worker: string): Attributes {
  const attributes: Attributes = {
    [names.messageId]: fence.job,
    [names.attempt]: attempt,
    [names.epoch]: fence.epoch,
    [names.run]: run,
    [names.clientId]: worker,
  };
  if (key !== null) attributes[names.key] = key;
  return attributes;
}

/** Record the error on a span. */
export function markFailed(
  span: Span,
  error: { class: string; message: string; stack?: string | undefined },
): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
  span.setAttribute(names.errorType, error.class);
  span.recordException({
    name: error.class,
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
  });
}
