import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from "@opentelemetry/sdk-trace-node";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type MetricData,
} from "@opentelemetry/sdk-metrics";
import { openTelemetry } from "#stint/opentelemetry.js";
import { until } from "../support/until.ts";

// The context manager is one for the process; the providers are each test's own.
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

/** Telemetry whose spans and metrics a test can look at. */
export function telemetry({ sampler }: { sampler?: Sampler } = {}) {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(sampler === undefined ? {} : { sampler }),
  });
  const { meterProvider, metrics } = collecting();
  const tracer = provider.getTracer("test");
  return {
    telemetry: openTelemetry({ tracerProvider: provider, meterProvider }),
    tracerProvider: provider,
    meterProvider,
    metrics,
    spans: (): ReadableSpan[] => exporter.getFinishedSpans(),
    /** Waits for so many spans of this name. */
    async ended(name: string, count = 1): Promise<ReadableSpan[]> {
      const named = (): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name);
      await until(() => named().length >= count, { message: `${count} spans "${name}" ended` });
      return named();
    },
    /** Do something in a span of the test's own. */
    async within<T>(name: string, work: () => Promise<T>): Promise<T> {
      const span = tracer.startSpan(name);
      try {
        return await context.with(trace.setSpan(context.active(), span), work);
      } finally {
        span.end();
      }
    },
    tracer,
  };
}

/** A meter provider whose metrics a test can read. */
function collecting() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  return {
    meterProvider: new MeterProvider({ readers: [reader] }),
    metrics: async (): Promise<Map<string, MetricData>> => {
      await reader.forceFlush();
      const [last] = exporter.getMetrics().slice(-1);
      const all = (last?.scopeMetrics ?? []).flatMap((scope) => scope.metrics);
      return new Map(all.map((metric) => [metric.descriptor.name, metric]));
    },
  };
}
