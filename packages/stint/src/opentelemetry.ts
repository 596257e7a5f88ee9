/** For `createStint({ telemetry })`. Needs the optional package `@opentelemetry/api`, and is the only module that loads it. */
export { metricProducer, type MetricProducer } from "./telemetry/opentelemetry/metric-producer.ts";
export { openTelemetry, type OpenTelemetryOptions } from "./telemetry/opentelemetry/telemetry.ts";
