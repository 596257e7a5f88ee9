/** Stint with options that its adapter does not set, for scenarios about Stint alone. */
import { randomBytes } from "node:crypto";
import type { StintOptions, WorkerOptions } from "stint";
import { nowMs } from "../../core/clock.ts";
import type { Client, Payload } from "../../core/types.ts";
import type { Context } from "../context.ts";
import { makePayload } from "../payload.ts";
import { openLoop, type Sent } from "./open-loop.ts";

type Wake = Pick<StintOptions, "wake">;

export type StintWork = Wake & {
  lease?: string;
  poll?: string;
  sleep?: string;
  /** The delay of every retry. */
  backoff?: string;
  /** Handlers never return. */
  holds?: boolean;
  /** How long each handler keeps the processor busy. */
  workMs?: number;
  /** With spans and metrics in an SDK that exports nothing. */
  telemetry?: Telemetry;
};

/** Metrics, and traces: this share of the jobs without a trace; jobs with a trace follow its sampling flag. */
export type Telemetry = { sampled?: number; metrics?: boolean };

/** One start of the handler: the number and time in the payload, the attempt, and the time of the start. */
export type Start = readonly [n: number, at: number, attempt: number, startedMs: number];

const starts: Start[] = [];

/** Start a worker with these options. */
export async function stintWork(
  { stores, runs }: Context,
  { wake, holds = false, backoff, workMs = 0, telemetry, ...options }: StintWork,
): Promise<void> {
  const { createStint, defineJob, handle, silentLogger, steps, typed } = await import("stint");
  const stint = createStint({
    database: stores.postgres,
    logger: silentLogger,
    ...(wake === undefined ? {} : { wake }),
    ...(telemetry === undefined ? {} : { telemetry: await startTelemetry(telemetry) }),
  });
  const noop = defineJob("noop", { payload: typed<Payload>() });
  const input: WorkerOptions = {
    pools: { default: 10 },
    ...options,
    ...(backoff === undefined ? {} : { backoff: steps(backoff) }),
    handlers: [
      handle(noop, async ({ payload: { n, at, failures = 0 }, attempt }) => {
        runs.count += 1;
        if (at !== 0) starts.push([n, at, attempt, nowMs()]);
        for (const from = performance.now(); performance.now() - from < workMs;);
        if (holds) await new Promise(() => undefined);
        if (attempt <= failures) throw new Error("fails on purpose");
      }),
    ],
  };
  await stint.worker(input).start();
}

/** Spans are created, sampled and ended as in production. Sending them is left out: its cost belongs to the exporter. */
async function startTelemetry({
  sampled,
  metrics: wanted,
}: Telemetry): Promise<NonNullable<StintOptions["telemetry"]>> {
  const { NodeTracerProvider, BatchSpanProcessor, ParentBasedSampler, TraceIdRatioBasedSampler } =
    await import("@opentelemetry/sdk-trace-node");
  const { MeterProvider, PeriodicExportingMetricReader, AggregationTemporality } =
    await import("@opentelemetry/sdk-metrics");
  const { metrics } = await import("@opentelemetry/api");
  const { openTelemetry } = await import("stint/opentelemetry");
  const done = { code: 0 };
  if (sampled !== undefined)
    new NodeTracerProvider({
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampled) }),
      spanProcessors: [
        new BatchSpanProcessor({ export: (_, callback) => callback(done), shutdown: async () => undefined }),
      ],
    }).register();
  const reader = new PeriodicExportingMetricReader({
    exporter: {
      export: (_, callback) => callback(done),
      forceFlush: async () => undefined,
      shutdown: async () => undefined,
      selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
    },
    exportIntervalMillis: 5_000,
  });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  return openTelemetry({
    traces: sampled !== undefined,
    metrics: wanted === true,
  });
}

/** Ready jobs, each with the trace of its own enqueue. This share of the traces is sampled. */
export async function stintFill(
  { stores }: Context,
  { count, sampled }: { count: number; sampled: number },
): Promise<void> {
  const { createStint, defineJob, entry, silentLogger, typed } = await import("stint");
  const stint = createStint({ database: stores.postgres, logger: silentLogger });
  const noop = defineJob("noop", { payload: typed<Payload>() });
  for (let sent = 0; sent < count; sent += filledAtOnce) {
    const jobs = Array.from({ length: Math.min(filledAtOnce, count - sent) }, (_, n) => {
      const flags = Math.random() < sampled ? "01" : "00";
      const traceparent = `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-${flags}`;
      return entry(noop, makePayload(sent + n), { meta: { trace: { traceparent } } });
    });
    await stint.enqueueMany(jobs);
  }
  await stint.close();
}

const filledAtOnce = 1_000;

/** Handler starts of `stintWork`, from the given index on. */
export async function stintStarts(
  _: Context,
  { from }: { from: number },
): Promise<{ starts: readonly Start[] }> {
  return { starts: starts.slice(from) };
}

/** As `openLoop`. */
export async function stintOpenLoop(
  context: Context,
  { wake, ...input }: Wake & { rate: number; seconds: number },
): Promise<Sent> {
  const { createStint, silentLogger, defineJob, typed } = await import("stint");
  const producer = createStint({
    database: context.stores.postgres,
    logger: silentLogger,
    ...(wake === undefined ? {} : { wake }),
  });
  const noop = defineJob("noop", { payload: typed<Payload>() });
  const client: Client = {
    ...context.client,
    enqueueOne: async (payload) => await producer.enqueue(noop, payload),
  };
  try {
    return await openLoop({ ...context, client }, input);
  } finally {
    await producer.close();
  }
}
