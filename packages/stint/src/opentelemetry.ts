/** For `createStint({ telemetry })`. Needs the optional package `@opentelemetry/api`, and is the only module that loads it. */
export { openTelemetry, type OpenTelemetryOptions } from "./telemetry/opentelemetry/telemetry.ts";
