import {
  context,
  createContextKey,
  metrics,
  ROOT_CONTEXT,
  SpanKind,
  trace,
  type Attributes,
  type Link,
  type MeterProvider,
  type TracerProvider,
} from "@opentelemetry/api";
import type { ClaimedJob } from "../../model/job.ts";
import type { EnqueuingJob, Telemetry } from "../../model/telemetry.ts";
import { refuseUnknownKeys, requireBoolean } from "../../model/options.ts";
import { version } from "../../version.ts";
import { AttemptSpan, markFailed } from "./attempt-span.ts";
import { instrumentsOf, noInstruments } from "./instruments.ts";
import { SpanAttributesCache, queueOf } from "./span-attributes.ts";
import { names, suppressTracing, systemAttributes } from "./semconv.ts";
import { Carried, written } from "./trace-context.ts";

export type OpenTelemetryOptions = {
  /** Default: the provider that is registered globally. */
  tracerProvider?: TracerProvider;
  meterProvider?: MeterProvider;
  /** Default true. */
  traces?: boolean;
  /** Default true. */
  metrics?: boolean;
};

/** The SDK keeps no more links of one span. */
const mostLinks = 128;
const silent = createContextKey(suppressTracing);

/**
 * Spans and metrics for OpenTelemetry: pass it as `createStint({ telemetry: openTelemetry() })`.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  refuseUnknownKeys("openTelemetry", options, ["tracerProvider", "meterProvider", "traces", "metrics"]);
  const traces = requireBoolean("openTelemetry.traces", options.traces ?? true);
  const provider = options.tracerProvider ?? trace.getTracerProvider();
  const tracer = traces ? provider.getTracer("stint", version) : undefined;
  const counts = requireBoolean("openTelemetry.metrics", options.metrics ?? true);
  const instruments = counts
    ? instrumentsOf(options.meterProvider ?? metrics.getMeterProvider())
    : noInstruments;
  return make({ tracer, instruments }, undefined);
}

type Deps = ConstructorParameters<typeof AttemptSpan>[0];
type Server = Parameters<NonNullable<Telemetry["at"]>>[0];

function make(deps: Deps, server: Server | undefined): Telemetry {
  const { tracer, instruments } = deps;
  const common = { ...systemAttributes(), ...serverAttributes(server) };
  const enqueues = new SpanAttributesCache({
    name: "enqueue",
    type: "send",
    kind: SpanKind.PRODUCER,
    common,
  });
  const claims = new SpanAttributesCache({ name: "claim", type: "receive", kind: SpanKind.CLIENT, common });
  const processes = new SpanAttributesCache({
    name: "process",
    type: "process",
    kind: SpanKind.CONSUMER,
    common,
  });
  const settles = new SpanAttributesCache({ name: "settle", type: "settle", kind: SpanKind.CLIENT, common });
  const carried = new Carried();

  return {
    async enqueue(jobs, send) {
      const shared = enqueues.of(queueOf(jobs));
      const startedAt = performance.now();
      // The jobs carry the context of this span, so it is their producer, whether it sends one job or many.
      const span = tracer?.startSpan(shared.name, shared.options);
      if (span?.isRecording() === true) span.setAttributes({ ...shared.others, ...enqueuedAttributes(jobs) });
      let { attributes } = shared;
      try {
        if (span === undefined) return await send(undefined);
        const inside = trace.setSpan(context.active(), span);
        return await context.with(inside, () => send(written(span.spanContext())));
      } catch (thrown) {
        const error = { class: classOf(thrown), message: String(thrown) };
        if (span?.isRecording() === true) markFailed(span, error);
        attributes = shared.failed(error.class);
        throw thrown;
      } finally {
        instruments.sent(jobs.length, attributes);
        instruments.operated(performance.now() - startedAt, attributes);
        span?.end();
      }
    },

    claimed(jobs, tookMs, worker) {
      const shared = claims.of(queueOf(jobs));
      instruments.consumed(jobs.length, shared.attributes);
      instruments.operated(tookMs, shared.attributes);
      if (tracer === undefined) return;
      const links = creationsOf(jobs, carried);
      const options = { ...shared.options, links, startTime: Date.now() - tookMs };
      const span = tracer.startSpan(shared.name, options, ROOT_CONTEXT);
      if (!span.isRecording()) return;
      span.setAttributes({ ...shared.others, ...batchAttributes(jobs, worker) });
      span.end();
    },

    attempt(job, worker) {
      return new AttemptSpan(deps, processes.of(job.queue, job.kind), job, carried.of(job.meta), worker);
    },

    settled(attempts, tookMs, worker) {
      const shared = settles.of(queueOf(attempts.map(({ job }) => job)));
      instruments.operated(tookMs, shared.attributes);
      const links = recordedOf(attempts);
      // A settle without a recorded attempt has nothing to link to.
      if (tracer === undefined || links.length === 0) return;
      const options = { ...shared.options, links, startTime: Date.now() - tookMs };
      const span = tracer.startSpan(shared.name, options, ROOT_CONTEXT);
      if (!span.isRecording()) return;
      span.setAttributes({ ...shared.others, ...batchAttributes(attempts, worker) });
      span.end();
    },

    quietly: (work) => context.with(ROOT_CONTEXT.setValue(silent, true), work),

    at: (where) => make(deps, where),
  };
}

/** Links to the recorded enqueues of a claim's jobs, each once. */
function creationsOf(jobs: readonly ClaimedJob[], carried: Carried): Link[] {
  const links = new Map<string, Link>();
  for (const { meta } of jobs) {
    const creation = carried.of(meta);
    if (creation?.sampled !== true) continue;
    links.set(`${creation.span.traceId} ${creation.span.spanId}`, { context: creation.span });
    if (links.size === mostLinks) break;
  }
  return [...links.values()];
}

function recordedOf(attempts: readonly { readonly trace: unknown }[]): Link[] {
  const links: Link[] = [];
  for (const { trace: attempt } of attempts) {
    if (!(attempt instanceof AttemptSpan) || attempt.recorded === undefined) continue;
    if (links.push({ context: attempt.recorded }) === mostLinks) break;
  }
  return links;
}

function serverAttributes(server: Server | undefined): Attributes {
  if (server === undefined) return {};
  const { address, port } = server;
  return { [names.serverAddress]: address, ...(port === undefined ? {} : { [names.serverPort]: port }) };
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

function batchAttributes({ length }: readonly unknown[], worker: string): Attributes {
  return { [names.clientId]: worker, [names.batchCount]: length };
}

function classOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown;
}
