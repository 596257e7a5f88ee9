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

/** What the API keeps the span of a context under: a context key is a symbol of this name. */
const spanKey = createContextKey("OpenTelemetry Context Key SPAN");

/** A context with a span and nothing else. The API's own copies a map and makes three functions, for every attempt. */
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
/** An API that keeps it elsewhere gets the context it makes itself. */
const isKnown = trace.getSpan(new SpanOnly(sample)) === sample;

export function contextWith(span: Span): Context {
  return isKnown ? new SpanOnly(span) : trace.setSpan(ROOT_CONTEXT, span);
}

/** As W3C Trace Context writes it; nothing where there is no trace. */
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

/** The trace a job was enqueued in, as the API wants it. */
export class Creation {
  readonly span: SpanContext;
  readonly sampled: boolean;
  #context: Context | undefined;

  constructor(span: SpanContext) {
    this.span = span;
    this.sampled = isSampled(span);
  }

  /** For what is a child of it. */
  get context(): Context {
    return (this.#context ??= contextWith(trace.wrapSpanContext(this.span)));
  }
}

/** What a job carries. The jobs of one `enqueueMany` come together and carry the same, so the last one is kept. */
export class Carried {
  #text = "";
  #state: unknown;
  #last: Creation | undefined;

  of(meta: Readonly<Record<string, unknown>>): Creation | undefined {
    const carried = meta["trace"] as { traceparent?: unknown; tracestate?: unknown } | null | undefined;
    // Most jobs of an installation that has just been given telemetry carry none.
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

/** Of a text that is known to be a `traceparent`. By the places of its parts: a job that is sampled out pays little more than this. */
export function read(traceparent: string, tracestate?: string): SpanContext | undefined {
  const traceId = traceparent.slice(3, 35);
  const spanId = traceparent.slice(36, 52);
  if (traceId === INVALID_TRACEID || spanId === INVALID_SPANID) return undefined;
  const traceFlags = Number.parseInt(traceparent.slice(53), 16);
  return tracestate === undefined
    ? { traceId, spanId, traceFlags, isRemote: true }
    : { traceId, spanId, traceFlags, isRemote: true, traceState: createTraceState(tracestate) };
}
