import type { Attributes, MeterProvider } from "@opentelemetry/api";
import { version } from "../../version.ts";
import { durationBounds, names } from "./semconv.ts";

/** The instruments of the messaging conventions. Attributes are shared objects and must not be changed. */
export type Instruments = {
  sent(count: number, attributes: Readonly<Attributes>): void;
  consumed(count: number, attributes: Readonly<Attributes>): void;
  /** The duration of an enqueue, a claim or a settle. */
  operated(ms: number, attributes: Readonly<Attributes>): void;
  /** The duration of a handler. */
  processed(ms: number, attributes: Readonly<Attributes>): void;
};

/** Instruments of a meter. The SDK takes about three microseconds for each value, to find its series. */
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

/** For `metrics: false`. */
export const noInstruments: Instruments = {
  sent: nothing,
  consumed: nothing,
  operated: nothing,
  processed: nothing,
};
