import { SpanKind, trace, TraceFlags } from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  SamplingDecision,
  type Sampler,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";
import { defineJob, entry, handle, steps, typed } from "#stint/index.js";
import { openTelemetry } from "#stint/opentelemetry.js";
import { freshSchema } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";
import { telemetry } from "./spans.ts";

const note = defineJob("note", { queue: "notes", payload: typed<{ fails?: number }>() });
const quick = { pools: { notes: 2 }, backoff: steps(0) };

/** As ParentBased(AlwaysOff) would, and notes what it is asked about. */
function counting(sampler: Sampler): Sampler & { asked: [string, unknown][] } {
  const asked: [string, unknown][] = [];
  return {
    asked,
    shouldSample(context, traceId, name, kind, attributes, links) {
      asked.push([name, attributes]);
      return sampler.shouldSample(context, traceId, name, kind, attributes, links);
    },
    toString: () => "counting",
  };
}

test("a settle is one span that links to its recorded attempts", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const { worker } = await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });
  await stint.enqueue(note, {});

  const [process] = await otel.ended("process notes");
  const [settle] = await otel.ended("settle notes");
  expect(settle).toMatchObject({
    kind: SpanKind.CLIENT,
    parentSpanContext: undefined,
    links: [{ context: { spanId: process!.spanContext().spanId } }],
    attributes: {
      "messaging.system.name": "stint",
      "messaging.operation.name": "settle",
      "messaging.operation.type": "settle",
      "messaging.destination.name": "notes",
      "messaging.batch.message_count": 1,
      "messaging.client.id": worker.id,
    },
  });
});

test("a settle without recorded attempts does not ask the sampler", async () => {
  const fresh = await freshSchema();
  const sampler = counting(new AlwaysOffSampler());
  const otel = telemetry({ sampler });
  const stint = fresh.client({ telemetry: otel.telemetry });
  await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });
  await stint.waitFor(await stint.enqueue(note, {}), { timeout: "60s" });

  expect(sampler.asked.map(([name]) => name).sort()).toEqual([
    "claim notes",
    "enqueue notes",
    "process notes",
  ]);
  expect(sampler.asked.find(([name]) => name === "process notes")![1]).toEqual({
    "messaging.operation.type": "process",
    "messaging.destination.name": "notes",
    "stint.job.kind": "note",
  });
  expect(otel.spans()).toEqual([]);
});

test("jobs with an unsampled enqueue ask the sampler once a second", async () => {
  const fresh = await freshSchema();
  const sampler = counting(new ParentBasedSampler({ root: new AlwaysOffSampler() }));
  const otel = telemetry({ sampler });
  const stint = fresh.client({ telemetry: otel.telemetry });
  const inside: { traceId: string; traceFlags: number }[] = [];
  const { all, seen } = await startWorker(stint, {
    pools: { notes: 50 },
    handlers: [handle(note, () => void inside.push(trace.getActiveSpan()!.spanContext()))],
  });
  const jobs = await stint.enqueueMany(Array.from({ length: 50 }, () => entry(note, {})));
  await seen("settled", () => all("settled").length === jobs.length);

  const asked = sampler.asked.filter(([name]) => name === "process notes");
  // The fiftieth may begin more than a second after the first, on a machine that is busy; never is each asked about.
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.length).toBeLessThan(25);
  expect(inside).toHaveLength(50);
  expect(new Set(inside.map(({ traceFlags }) => traceFlags))).toEqual(new Set([TraceFlags.NONE]));
  const enqueued = await stint.get(jobs[0]!.id);
  const [, traceId] = (enqueued!.meta["trace"] as { traceparent: string }).traceparent.split("-");
  expect(new Set(inside.map((span) => span.traceId))).toEqual(new Set([traceId]));
  expect(new Set(all("settled").map((settled) => settled.traceId))).toEqual(new Set([traceId]));
});

test("a sampler that records unsampled enqueues is asked about every job", async () => {
  const fresh = await freshSchema();
  const enqueues = telemetry({ sampler: new AlwaysOffSampler() });
  const otel = telemetry({ sampler: new AlwaysOnSampler() });
  await fresh
    .client({ telemetry: enqueues.telemetry })
    .enqueueMany(Array.from({ length: 20 }, () => entry(note, {})));
  await startWorker(fresh.client({ telemetry: otel.telemetry }), {
    ...quick,
    handlers: [handle(note, () => undefined)],
  });

  expect(await otel.ended("process notes", 20)).toHaveLength(20);
});

test("a retry links to a first attempt that another process ran", async () => {
  const fresh = await freshSchema();
  const [here, there] = [telemetry(), telemetry()];
  const other = fresh.client({ telemetry: there.telemetry });
  const stint = fresh.client({ telemetry: here.telemetry });
  const first = await startWorker(stint, {
    pools: { notes: 1 },
    backoff: steps("1h"),
    handlers: [
      handle(note, () => {
        throw new Error("not here");
      }),
    ],
  });
  const job = await stint.enqueue(note, {}, { meta: { user: "u1" } });
  const untraced = await fresh.client().enqueue(note, {});
  await first.seen("settled", ({ id }) => id === job.id);
  await first.seen("settled", ({ id }) => id === untraced.id);
  await first.worker.stop();
  const before = await stint.get(job.id);
  const metas: unknown[] = [];
  await startWorker(other, { ...quick, handlers: [handle(note, ({ meta }) => void metas.push(meta))] });
  for (const { id } of [job, untraced]) {
    await other.runNow(id);
    await other.waitFor(id, { timeout: "60s" });
  }

  const of = (id: string) => (span: { attributes: Record<string, unknown> }) =>
    span.attributes["messaging.message.id"] === id;
  const [earlier, later] = [await here.ended("process notes", 2), await there.ended("process notes", 2)];
  for (const { id } of [job, untraced]) {
    const { traceId, spanId } = earlier.find(of(id))!.spanContext();
    expect(later.find(of(id))!.links).toMatchObject([{ context: { traceId, spanId } }]);
  }
  const { traceId, spanId } = earlier.find(of(job.id))!.spanContext();
  expect(before!.meta).toEqual({
    user: "u1",
    trace: {
      traceparent: expect.stringContaining(traceId) as unknown,
      first: `00-${traceId}-${spanId}-01`,
    },
  });
  expect(metas[0]).toEqual(before!.meta);
});

test("an invalid meta.trace of the caller is unchanged by a retry", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ attempt }) => {
        if (attempt === 1) throw new Error("once");
      }),
    ],
  });
  const jobs = await stint.enqueueMany(
    ["mine", ["a"], null].map((own) => entry(note, {}, { meta: { trace: own } })),
  );
  for (const job of jobs) await stint.waitFor(job, { timeout: "60s" });

  const metas = await Promise.all(jobs.map(async ({ id }) => (await stint.get(id))!.meta));
  expect(metas).toEqual([{ trace: "mine" }, { trace: ["a"] }, { trace: null }]);
});

test("traces and metrics can be turned off separately", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const providers = { tracerProvider: otel.tracerProvider, meterProvider: otel.meterProvider };
  const counted = fresh.client({ telemetry: openTelemetry({ ...providers, traces: false }) });
  const { seen } = await startWorker(counted, {
    ...quick,
    handlers: [handle(note, () => otel.tracer.startSpan("inside").end())],
  });
  const job = await counted.enqueue(note, {});
  await seen("settled", ({ id }) => id === job.id);
  // What the handler traces is its own affair.
  expect(otel.spans().map(({ name }) => name)).toEqual(["inside"]);
  expect((await counted.get(job.id))!.meta).toEqual({});
  const metrics = await otel.metrics();
  expect(metrics.has("messaging.process.duration")).toBe(true);

  const traced = telemetry();
  const seenOnly = fresh.client({
    telemetry: openTelemetry({
      tracerProvider: traced.tracerProvider,
      meterProvider: traced.meterProvider,
      metrics: false,
    }),
  });
  await seenOnly.enqueue(note, {});
  await traced.ended("enqueue notes");
  expect((await traced.metrics()).size).toBe(0);
});

test("traces and metrics must be true or false", () => {
  expect(() => openTelemetry({ metrics: "yes" as never })).toThrow(
    "openTelemetry.metrics: must be true or false",
  );
  expect(() => openTelemetry({ traces: 1 as never })).toThrow("openTelemetry.traces: must be true or false");
});

test("a span that is recorded but not sampled is not linked to", async () => {
  const fresh = await freshSchema();
  const recordOnly: Sampler = {
    shouldSample: () => ({ decision: SamplingDecision.RECORD }),
    toString: () => "record only",
  };
  const otel = telemetry({ sampler: recordOnly });
  const stint = fresh.client({ telemetry: otel.telemetry });
  await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ attempt }) => {
        if (attempt === 1) throw new Error("once");
      }),
    ],
  });
  const job = await stint.enqueue(note, {});
  await stint.waitFor(job, { timeout: "60s" });
  expect((await stint.get(job.id))!.meta["trace"]).not.toHaveProperty("first");
});
