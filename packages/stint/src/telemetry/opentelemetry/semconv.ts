/**
 * The names of OpenTelemetry's semantic conventions for messaging, version 1.44. They are not stable, so they are written here once
 * instead of imported from a package that may change them.
 */
export const names = {
  system: "messaging.system.name",
  /** The former name, sent as well until the conventions are stable. */
  formerSystem: "messaging.system",
  operationName: "messaging.operation.name",
  operationType: "messaging.operation.type",
  destination: "messaging.destination.name",
  messageId: "messaging.message.id",
  batchCount: "messaging.batch.message_count",
  clientId: "messaging.client.id",
  errorType: "error.type",
  serverAddress: "server.address",
  serverPort: "server.port",

  sent: "messaging.client.sent.messages",
  consumed: "messaging.client.consumed.messages",
  operationDuration: "messaging.client.operation.duration",
  processDuration: "messaging.process.duration",

  kind: "stint.job.kind",
  key: "stint.job.key",
  attempt: "stint.job.attempt",
  epoch: "stint.job.epoch",
  run: "stint.job.run",
  outcome: "stint.job.outcome",
  state: "stint.job.state",
} as const;

/** The buckets of the conventions up to ten seconds, then buckets for jobs. */
export const durationBounds = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300, 600, 1_800,
  3_600,
];

/** The context key that turns instrumentations off, without importing the SDK: a symbol of this name. */
export const suppressTracing = "OpenTelemetry SDK Context Key SUPPRESS_TRACING";

/** The messaging system, under the names selected by OTEL_SEMCONV_STABILITY_OPT_IN. */
export function systemAttributes(
  optIn = process.env["OTEL_SEMCONV_STABILITY_OPT_IN"] ?? "",
): Record<string, string> {
  const newOnly = optIn.split(",").some((word) => word.trim() === "messaging");
  return { [names.system]: "stint", ...(newOnly ? {} : { [names.formerSystem]: "stint" }) };
}
