import {
  createContextKey,
  createTraceState,
  INVALID_SPANID,
  INVALID_TRACEID,
  isSpanContextValid,
  ROOT_CONTEXT,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanContext,
} from "@opentelemetry/api";
import { isTraceparent, type TraceContext } from "../../model/telemetry.ts";

/** The key under which the API keeps the span of a context: a symbol of this name. */
const spanKey = createContextKey("OpenTelemetry Context Key SPAN");

/** A context that holds only a span. The API's own context copies a map and makes three functions for every attempt. */
class SpanOnly implements Context {
  readonly #span: Span;

  constructor(span: Span) {
    this.#span = span;
  }

  getValue(key: symbol): unknown {
    return key === spanKey ? this.#span : undefined;
  }

  setValue(key: symbol, value: unknown): Context {
    return trace.setSpan(ROOT_CONTEXT, this.#span).setValue(key, value);
  }

  deleteValue(key: symbol): Context {
    return trace.setSpan(ROOT_CONTEXT, this.#span).deleteValue(key);
  }
}

const sample = trace.wrapSpanContext({ traceId: "", spanId: "", traceFlags: 0 });
/** An API version that uses another key gets its own context. */
const isKnown = trace.getSpan(new SpanOnly(sample)) === sample;

export function contextWith(span: Span): Context {
  return isKnown ? new SpanOnly(span) : trace.setSpan(ROOT_CONTEXT, span);
}

/** In the W3C Trace Context format; undefined if there is no trace. */
export function written(span: SpanContext): TraceContext | undefined {
  if (!isSpanContextValid(span)) return undefined;
  const flags = isSampled(span) ? "01" : "00";
  const tracestate = span.traceState?.serialize() ?? "";
  return {
    traceparent: `00-${span.traceId}-${span.spanId}-${flags}`,
    ...(tracestate === "" ? {} : { tracestate }),
  };
}

export function isSampled({ traceFlags }: SpanContext): boolean {
  return (traceFlags & TraceFlags.SAMPLED) !== 0;
}

/** The span that enqueued a job, in the API's form. */
export class Creation {
  readonly span: SpanContext;
  readonly sampled: boolean;
  #context: Context | undefined;

  constructor(span: SpanContext) {
    this.span = span;
    this.sampled = isSampled(span);
  }

  /** The parent context for its children. */
  get context(): Context {
    return (this.#context ??= contextWith(trace.wrapSpanContext(this.span)));
  }
}

/** Reads the trace that a job carries. Jobs of one `enqueueMany` carry the same and come together, so the last is cached. */
export class Carried {
  #text = "";
  #state: unknown;
  #last: Creation | undefined;

  of(meta: Readonly<Record<string, unknown>>): Creation | undefined {
    const carried = meta["trace"] as { traceparent?: unknown; tracestate?: unknown } | null | undefined;
    // Jobs that were enqueued without telemetry carry no trace.
    if (carried === undefined || carried === null) return undefined;
    const { traceparent, tracestate } = carried;
    if (traceparent === this.#text && tracestate === this.#state) return this.#last;
    if (!isTraceparent(traceparent)) return undefined;
    const span = read(traceparent, typeof tracestate === "string" ? tracestate : undefined);
    this.#text = traceparent;
    this.#state = tracestate;
    this.#last = span === undefined ? undefined : new Creation(span);
    return this.#last;
  }
}

/** Parse a valid `traceparent` by position: for an unsampled job, this is most of the cost. */
export function read(traceparent: string, tracestate?: string): SpanContext | undefined {
  const traceId = traceparent.slice(3, 35);
  const spanId = traceparent.slice(36, 52);
  if (traceId === INVALID_TRACEID || spanId === INVALID_SPANID) return undefined;
  const traceFlags = Number.parseInt(traceparent.slice(53), 16);
  return tracestate === undefined
    ? { traceId, spanId, traceFlags, isRemote: true }
    : { traceId, spanId, traceFlags, isRemote: true, traceState: createTraceState(tracestate) };
}
