import type { Attributes, MeterProvider } from "@opentelemetry/api";
import { version } from "../../version.ts";
import { durationBounds, names } from "./semconv.ts";

/** Where counts and durations go, by the conventions' names. Attributes are shared objects, and must not be changed. */
export type Instruments = {
  sent(count: number, attributes: Readonly<Attributes>): void;
  consumed(count: number, attributes: Readonly<Attributes>): void;
  /** An enqueue, a claim or a settle took so long. */
  operated(ms: number, attributes: Readonly<Attributes>): void;
  /** A handler took so long. */
  processed(ms: number, attributes: Readonly<Attributes>): void;
};

/** Into the instruments of a meter: two microseconds and more for each value, which is what the SDK takes to find its series. */
export function instrumentsOf(provider: MeterProvider): Instruments {
  const meter = provider.getMeter("stint", version);
  const counted = { unit: "{message}" };
  const timed = { unit: "s", advice: { explicitBucketBoundaries: [...durationBounds] } };
  const sent = meter.createCounter(names.sent, counted);
  const consumed = meter.createCounter(names.consumed, counted);
  const operationDuration = meter.createHistogram(names.operationDuration, timed);
  const processDuration = meter.createHistogram(names.processDuration, timed);
  return {
    sent: (count, attributes) => sent.add(count, attributes),
    consumed: (count, attributes) => consumed.add(count, attributes),
    operated: (ms, attributes) => operationDuration.record(ms / 1_000, attributes),
    processed: (ms, attributes) => processDuration.record(ms / 1_000, attributes),
  };
}

const nothing = (): void => undefined;

/** For whoever wants traces alone. */
export const noInstruments: Instruments = {
  sent: nothing,
  consumed: nothing,
  operated: nothing,
  processed: nothing,
};
