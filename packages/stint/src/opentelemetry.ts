/** For `createStint({ telemetry })`. Needs the optional package `@opentelemetry/api`; no other module loads it. */
export { openTelemetry, type OpenTelemetryOptions } from "./telemetry/opentelemetry/telemetry.ts";
