/** For `createStint({ telemetry })`. Needs the optional package `@opentelemetry/api`, and is the only module that loads it. */
export { metricProducer, type MetricProducer } from "./signals/opentelemetry/metric-producer.ts";
export { openTelemetry, type OpenTelemetryOptions } from "./signals/opentelemetry/telemetry.ts";
