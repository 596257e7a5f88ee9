import { ValueType, type Attributes } from "@opentelemetry/api";
import { version } from "../../version.ts";
import type { Instruments } from "./instruments.ts";
import { durationBounds, names } from "./semconv.ts";

type HrTime = [number, number];
type Descriptor = { name: string; description: string; unit: string; valueType: ValueType };
type DataPoint<Value> = { startTime: HrTime; endTime: HrTime; attributes: Attributes; value: Value };
type Buckets = {
  buckets: { boundaries: number[]; counts: number[] };
  count: number;
  sum: number;
  min: number;
  max: number;
};

/** As the SDK's enums number them: a cumulative temporality, a histogram, a sum. */
const cumulative = 1;
const histogramPoints = 0;
const sumPoints = 3;

type Metric =
  | {
      descriptor: Descriptor;
      aggregationTemporality: typeof cumulative;
      dataPointType: typeof histogramPoints;
      dataPoints: DataPoint<Buckets>[];
    }
  | {
      descriptor: Descriptor;
      aggregationTemporality: typeof cumulative;
      dataPointType: typeof sumPoints;
      dataPoints: DataPoint<number>[];
      isMonotonic: true;
    };

/** What a reader of the SDK takes as `metricProducers`, written out so that the SDK need not be installed for its types. */
export type MetricProducer = {
  /** Where `openTelemetry` puts what it counts. */
  readonly instruments: Instruments;
  collect(): Promise<{
    resourceMetrics: {
      resource: ProducedResource;
      scopeMetrics: { scope: { name: string; version: string }; metrics: Metric[] }[];
    };
    errors: unknown[];
  }>;
};

/** The reader takes the resource of its own provider instead. */
type ProducedResource = {
  attributes: Attributes;
  merge<Other>(other: Other | null): Other & ProducedResource;
  getRawAttributes(): [string, undefined][];
};

/** Series told apart at most, as in the SDK. */
const mostSeries = 2_000;
const overflow: Readonly<Attributes> = Object.freeze({ "otel.metric.overflow": true });

/**
 * Metrics that are added up here and handed out when a reader asks, instead of being given to the SDK one by one. For
 * `openTelemetry({ metrics })` and the `metricProducers` of a metric reader.
 */
export function metricProducer(): MetricProducer {
  const sent = new Series(() => ({ value: 0 }));
  const consumed = new Series(() => ({ value: 0 }));
  const operated = new Series(() => new Durations());
  const processed = new Series(() => new Durations());
  const scope = { name: "stint", version };
  const since = hrTime();
  return {
    instruments: {
      sent: (count, attributes) => void (sent.of(attributes).value += count),
      consumed: (count, attributes) => void (consumed.of(attributes).value += count),
      operated: (ms, attributes) => operated.of(attributes).add(ms),
      processed: (ms, attributes) => processed.of(attributes).add(ms),
    },
    collect: () => {
      const metrics = [
        counter(names.sent, since, sent),
        counter(names.consumed, since, consumed),
        histogram(names.operationDuration, since, operated),
        histogram(names.processDuration, since, processed),
      ].filter(({ dataPoints }) => dataPoints.length > 0);
      return Promise.resolve({
        resourceMetrics: { resource, scopeMetrics: metrics.length === 0 ? [] : [{ scope, metrics }] },
        errors: [],
      });
    },
  };
}

const resource: ProducedResource = {
  attributes: {},
  merge: (other) => other as never,
  getRawAttributes: () => [],
};

/** One accumulation for each set of attributes. */
class Series<Value> {
  readonly #make: () => Value;
  readonly #byObject = new WeakMap<Readonly<Attributes>, Value>();
  readonly #byText = new Map<string, { attributes: Attributes; value: Value }>();

  constructor(make: () => Value) {
    this.#make = make;
  }

  /** Attributes are shared objects, so finding it again is a look-up by identity. */
  of(attributes: Readonly<Attributes>): Value {
    const known = this.#byObject.get(attributes);
    if (known !== undefined) return known;
    const value = this.#find(attributes);
    this.#byObject.set(attributes, value);
    return value;
  }

  points(): { attributes: Attributes; value: Value }[] {
    return [...this.#byText.values()];
  }

  #find(attributes: Readonly<Attributes>): Value {
    const text = JSON.stringify(attributes);
    const known = this.#byText.get(text);
    if (known !== undefined) return known.value;
    if (this.#byText.size >= mostSeries - 1 && attributes !== overflow) return this.of(overflow);
    const value = this.#make();
    this.#byText.set(text, { attributes: { ...attributes }, value });
    return value;
  }
}

/** How often what lasted how long, by the conventions' buckets. */
class Durations {
  readonly counts = Array.from({ length: durationBounds.length + 1 }, () => 0);
  sum = 0;
  min = Infinity;
  max = 0;

  add(ms: number): void {
    const seconds = ms / 1_000;
    let bucket = 0;
    while (bucket < durationBounds.length && seconds > (durationBounds[bucket] ?? Infinity)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += seconds;
    if (seconds < this.min) this.min = seconds;
    if (seconds > this.max) this.max = seconds;
  }

  get value(): Buckets {
    const { sum, min, max } = this;
    const count = this.counts.reduce((total, each) => total + each, 0);
    return {
      buckets: { boundaries: [...durationBounds], counts: [...this.counts] },
      count,
      sum,
      min,
      max,
    };
  }
}

function counter(name: string, since: HrTime, series: Series<{ value: number }>): Metric {
  return {
    descriptor: { name, description: "", unit: "{message}", valueType: ValueType.DOUBLE },
    aggregationTemporality: cumulative,
    dataPointType: sumPoints,
    isMonotonic: true,
    dataPoints: points(since, series),
  };
}

function histogram(name: string, since: HrTime, series: Series<Durations>): Metric {
  return {
    descriptor: { name, description: "", unit: "s", valueType: ValueType.DOUBLE },
    aggregationTemporality: cumulative,
    dataPointType: histogramPoints,
    dataPoints: points(since, series),
  };
}

function points<Value>(startTime: HrTime, series: Series<{ value: Value }>): DataPoint<Value>[] {
  const endTime = hrTime();
  return series
    .points()
    .map(({ attributes, value }) => ({ startTime, endTime, attributes, value: value.value }));
}

function hrTime(now = Date.now()): HrTime {
  return [Math.floor(now / 1_000), (now % 1_000) * 1_000_000];
}
