import { SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { expect, test } from "vitest";
import {
  createStint,
  defineJob,
  entry,
  handle,
  jsonLogger,
  PermanentError,
  steps,
  typed,
} from "#stint/index.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { telemetry } from "./spans.ts";

const note = defineJob("note", {
  queue: "notes",
  payload: typed<{ fail?: "once" | "always" }>(),
  key: () => "note:1",
});

const quick = { pools: { notes: 2 }, backoff: steps(0) };

test("a job that runs at once belongs to the trace that enqueued it", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const { worker } = await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });

  const job = await otel.within("request", () => stint.enqueue(note, {}));
  const [process] = await otel.ended("process notes");
  const [enqueue] = await otel.ended("enqueue notes");
  const [request] = await otel.ended("request");

  expect(enqueue).toMatchObject({
    kind: SpanKind.PRODUCER,
    parentSpanContext: { spanId: request!.spanContext().spanId },
    status: { code: SpanStatusCode.UNSET },
    attributes: {
      "messaging.system.name": "stint",
      "messaging.system": "stint",
      "messaging.operation.name": "enqueue",
      "messaging.operation.type": "send",
      "messaging.destination.name": "notes",
      "messaging.message.id": job.id,
      "stint.job.kind": "note",
      "stint.job.key": "note:1",
      "server.address": new URL(fresh.url).hostname,
      "server.port": Number(new URL(fresh.url).port),
    },
  });
  expect(process).toMatchObject({
    kind: SpanKind.CONSUMER,
    links: [],
    parentSpanContext: {
      traceId: request!.spanContext().traceId,
      spanId: enqueue!.spanContext().spanId,
      isRemote: true,
    },
    status: { code: SpanStatusCode.UNSET },
    attributes: {
      "messaging.system.name": "stint",
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.destination.name": "notes",
      "messaging.message.id": job.id,
      "messaging.client.id": worker.id,
      "stint.job.kind": "note",
      "stint.job.key": "note:1",
      "stint.job.attempt": 1,
      "stint.job.epoch": 1,
      "stint.job.run": 1,
      "stint.job.outcome": "succeeded",
      "stint.job.state": "succeeded",
    },
  });
  const [claim] = await otel.ended("claim notes");
  expect(claim).toMatchObject({
    kind: SpanKind.CLIENT,
    attributes: {
      "messaging.operation.name": "claim",
      "messaging.operation.type": "receive",
      "messaging.batch.message_count": 1,
      "messaging.client.id": worker.id,
    },
  });
});

test("a claim links to the enqueues of its jobs, each once, at most 128", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  await stint.enqueueMany([entry(note, {}), entry(note, {})]);
  await stint.enqueue(note, {});
  const enqueues = await otel.ended("enqueue notes", 2);
  await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });

  await otel.ended("process notes", 3);
  const claims = await otel.ended("claim notes");
  const linked = claims.flatMap(({ links }) => links.map(({ context: at }) => at.spanId));
  expect(new Set(linked)).toEqual(new Set(enqueues.map((span) => span.spanContext().spanId)));
  expect(claims[0]?.links).toHaveLength(new Set(claims[0]?.links.map(({ context: at }) => at.spanId)).size);

  const other = telemetry();
  const many = Array.from({ length: 300 }, (_, n) => ({
    queue: "notes",
    kind: "note",
    meta: { trace: { traceparent: `00-${"a".repeat(32)}-${String(n + 1).padStart(16, "0")}-01` } },
  }));
  const plain = { queue: "notes", kind: "note", meta: {} };
  const unsampled = {
    ...plain,
    meta: { trace: { traceparent: `00-${"b".repeat(32)}-${"c".repeat(16)}-00` } },
  };
  other.telemetry.claimed([plain, unsampled, ...many] as unknown as ClaimedJob[], 1, "w");
  const [claim] = await other.ended("claim notes");
  expect(claim?.links).toHaveLength(128);
  expect(claim?.links[0]?.context.traceId).toBe("a".repeat(32));
});

test("a trace spans transaction and retry, and the retry links to the first attempt", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const client = await adminClient(fresh.url);
  const job = await otel.within("request", async () => {
    await client.query("begin");
    const enqueued = await stint.in(client).enqueue(note, { fail: "once" }, { meta: { user: "u1" } });
    await client.query("commit");
    return enqueued;
  });
  await client.end();
  await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ attempt, meta }) => {
        if (attempt === 1) throw new RangeError(`out of reach for ${String(meta["user"])}`);
      }),
    ],
  });
  await stint.waitFor(job, { timeout: "60s" });

  const [first, second] = await otel.ended("process notes", 2);
  const [enqueue] = await otel.ended("enqueue notes");
  const [request] = await otel.ended("request");
  expect(enqueue!.spanContext().traceId).toBe(request!.spanContext().traceId);
  for (const attempt of [first, second])
    expect(attempt!.parentSpanContext).toMatchObject({
      traceId: request!.spanContext().traceId,
      spanId: enqueue!.spanContext().spanId,
    });
  expect(first).toMatchObject({
    links: [],
    status: { code: SpanStatusCode.ERROR, message: "out of reach for u1" },
    attributes: {
      "error.type": "RangeError",
      "stint.job.attempt": 1,
      "stint.job.outcome": "failed",
      "stint.job.state": "retrying",
    },
  });
  expect(first!.events.map(({ name }) => name)).toEqual(["exception"]);
  expect(second).toMatchObject({
    links: [{ context: { spanId: first!.spanContext().spanId } }],
    status: { code: SpanStatusCode.UNSET },
    attributes: { "stint.job.attempt": 2, "stint.job.state": "succeeded" },
  });
});

test("a delayed job and a replay start new traces that link to the enqueue", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  let fails = true;
  const { seen } = await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ payload }) => {
        if (payload.fail === "always" && fails) throw new PermanentError("never");
      }),
    ],
  });
  const later = await otel.within("request", () => stint.enqueue(note, {}, { delay: 1 }));
  const dead = await otel.within("request", () => stint.enqueue(note, { fail: "always" }));
  await seen("settled", ({ id, state }) => id === dead.id && state === "dead");
  fails = false;
  await stint.replay(dead.id, { reason: "fixed" });
  await stint.waitFor(dead, { timeout: "60s" });
  await stint.waitFor(later, { timeout: "60s" });

  const processed = await otel.ended("process notes", 3);
  const enqueued = await otel.ended("enqueue notes", 2);
  const of = (id: string) => (span: { attributes: Record<string, unknown> }) =>
    span.attributes["messaging.message.id"] === id;
  for (const span of [processed.find(of(later.id))!, processed.filter(of(dead.id))[1]!]) {
    const made = enqueued.find(of(span.attributes["messaging.message.id"] as string))!;
    expect(span.parentSpanContext).toBeUndefined();
    expect(span.links).toMatchObject([{ context: { spanId: made.spanContext().spanId } }]);
    expect(span.spanContext().traceId).not.toBe(made.spanContext().traceId);
  }
});

test("spans and enqueues of a handler belong to its attempt", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const child = defineJob("child", { queue: "notes", payload: typed<object>() });
  await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, async () => {
        await otel.within("inside", async () => await stint.enqueue(child, {}));
      }),
      handle(child, () => undefined),
    ],
  });
  const { id } = await stint.enqueue(note, {});

  // The child may end before the attempt that enqueued it.
  const [one, other] = await otel.ended("process notes", 2);
  const [outer, inner] = one!.attributes["messaging.message.id"] === id ? [one, other] : [other, one];
  const [inside] = await otel.ended("inside");
  expect(inside!.parentSpanContext?.spanId).toBe(outer!.spanContext().spanId);
  expect(inner!.spanContext().traceId).toBe(outer!.spanContext().traceId);
});

test("a worker's own loops are not traced", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const { seen } = await startWorker(stint, {
    ...quick,
    // As the instrumentation of a driver would: a span wherever it is called.
    handlers: [handle(note, () => otel.tracer.startSpan("in the handler").end())],
    middlewares: [],
  });
  const loops: boolean[] = [];
  const { worker } = await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });
  worker.on("claimed", () => loops.push(otel.tracer.startSpan("in the loop").isRecording()));
  await stint.enqueueMany(Array.from({ length: 40 }, () => entry(note, {})));
  await seen("settled");
  await otel.ended("process notes", 40);

  expect(loops.length).toBeGreaterThan(0);
  expect(loops).not.toContain(true);
  expect(otel.spans().some(({ name }) => name === "in the handler")).toBe(true);
});

test("enqueueMany is one span, whose context every job carries in its meta", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const own = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` };
  const jobs = await stint.enqueueMany([
    entry(note, {}),
    entry(note, {}, { meta: { user: "u1", text: 'the "trace"' } }),
    entry(note, {}, { meta: { trace: own } }),
    entry(note, {}, { delay: "1h", meta: {} }),
  ]);

  const [enqueue] = await otel.ended("enqueue notes");
  expect(enqueue!.kind).toBe(SpanKind.PRODUCER);
  expect(enqueue!.attributes).toMatchObject({ "messaging.batch.message_count": 4 });
  expect(enqueue!.attributes).not.toHaveProperty("messaging.message.id");
  const { traceId, spanId } = enqueue!.spanContext();
  const context = { traceparent: `00-${traceId}-${spanId}-01` };
  const metas = await Promise.all(jobs.map(async ({ id }) => (await stint.get(id))!.meta));
  expect(metas).toEqual([
    { trace: context },
    { user: "u1", text: 'the "trace"', trace: context },
    { trace: own },
    { trace: { ...context, link: true } },
  ]);
});

test("a failed enqueue is a span with an error", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const client = await adminClient(fresh.url);
  await client.query("begin");
  await client.query("select 1/0").catch(() => undefined);
  await expect(stint.in(client).enqueue(note, {})).rejects.toThrow("aborted");
  await client.end();

  const [enqueue] = await otel.ended("enqueue notes");
  expect(enqueue!.status.code).toBe(SpanStatusCode.ERROR);
  expect(enqueue!.attributes["error.type"]).toEqual(expect.stringMatching(/\w+/));
});

test("metrics use the names of the messaging conventions", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const { seen } = await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ payload }) => {
        if (payload.fail === "always") throw new PermanentError("never");
      }),
    ],
  });
  await stint.enqueueMany([entry(note, {}), entry(note, {})]);
  const dead = await stint.enqueue(note, { fail: "always" });
  await seen("settled", ({ id }) => id === dead.id);
  await otel.ended("process notes", 3);

  const metrics = await otel.metrics();
  const total = (name: string): number =>
    metrics.get(name)!.dataPoints.reduce((sum, { value }) => {
      return sum + (typeof value === "number" ? value : value.count);
    }, 0);
  expect(total("messaging.client.sent.messages")).toBe(3);
  expect(total("messaging.client.consumed.messages")).toBe(3);
  expect(total("messaging.process.duration")).toBe(3);
  expect(metrics.get("messaging.process.duration")!.descriptor.unit).toBe("s");
  expect(
    metrics.get("messaging.process.duration")!.dataPoints.map(({ attributes }) => attributes["error.type"]),
  ).toEqual(expect.arrayContaining([undefined, "PermanentError"]));
  expect(
    new Set(
      metrics
        .get("messaging.client.operation.duration")!
        .dataPoints.map(({ attributes }) => attributes["messaging.operation.name"]),
    ),
  ).toEqual(new Set(["enqueue", "claim", "settle"]));
});

test("logs about an attempt carry its job, key, kind, attempt and trace", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const lines: Record<string, unknown>[] = [];
  const logger = jsonLogger({
    level: "debug",
    write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
  });
  const stint = fresh.client({ telemetry: otel.telemetry, logger });
  await startWorker(stint, {
    ...quick,
    handlers: [
      handle(note, ({ attempt, logger: own }) => {
        own.info({}, "in the handler");
        if (attempt === 1) throw new Error("once");
      }),
    ],
  });
  const job = await stint.enqueue(note, {});
  await stint.waitFor(job, { timeout: "60s" });
  const [span] = await otel.ended("process notes", 2);

  const about = { job: job.id, key: "note:1", kind: "note", traceId: span!.spanContext().traceId };
  const said = lines.filter((line) => line["job"] === job.id);
  expect(said.map(({ message, level, attempt }) => [message, level, attempt])).toEqual([
    ["note begins", "debug", 1],
    ["in the handler", "info", 1],
    ["note failed; it will be retried", "warn", 1],
    ["note begins", "debug", 2],
    ["in the handler", "info", 2],
    ["note succeeded", "debug", 2],
  ]);
  for (const line of said) expect(line).toMatchObject(about);
});

test("without an SDK, nothing is traced and meta is unchanged", async () => {
  const fresh = await freshSchema();
  const { openTelemetry } = await import("#stint/opentelemetry.js");
  expect(trace.getTracerProvider().getTracer("x").startSpan("x").isRecording()).toBe(false);
  const stint = fresh.client({ telemetry: openTelemetry() });
  await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });
  const job = await stint.enqueue(note, {});
  await stint.waitFor(job, { timeout: "60s" });

  expect((await stint.get(job.id))!.meta).toEqual({});
});

test("a timed-out or released attempt ends in its trace when its outcome is decided", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  const held = gate();
  const { worker, all } = await startWorker(stint, {
    ...quick,
    attempts: 1,
    abort: 50,
    handlers: [handle(note, () => held.opened)],
  });
  const late = await stint.enqueue(note, {}, { timeout: 50 });
  const open = await stint.enqueue(note, {});
  await until(() => all("began").length === 2);
  const [timedOut] = await otel.ended("process notes");
  expect(timedOut!.attributes).toMatchObject({
    "messaging.message.id": late.id,
    "error.type": "TimedOutError",
    "stint.job.outcome": "timed-out",
    "stint.job.state": "dead",
  });

  await worker.stop({ drain: 0, abort: 0 });
  const [, released] = await otel.ended("process notes", 2);
  expect(released).toMatchObject({
    status: { code: SpanStatusCode.UNSET },
    attributes: {
      "messaging.message.id": open.id,
      "stint.job.outcome": "released",
      "stint.job.state": "ready",
    },
  });
  held.open();
});

test("telemetry that throws harms no job and is logged", async () => {
  const fresh = await freshSchema();
  const broken = (): never => {
    throw new Error("broken");
  };
  const warnings: string[] = [];
  const logger = jsonLogger({ level: "warn", write: (line) => void warnings.push(line) });
  const stint = fresh.client({
    logger,
    telemetry: { enqueue: broken, claimed: broken, attempt: broken, quietly: broken },
  });
  await startWorker(stint, { ...quick, handlers: [handle(note, () => undefined)] });
  const job = await stint.enqueue(note, {});
  await stint.waitFor(job, { timeout: "60s" });

  expect(warnings.filter((line) => line.includes("telemetry threw"))).toHaveLength(4);
  expect(await fresh.sql("select from stint.history")).toHaveLength(1);
});

test("an invalid telemetry option is refused", () => {
  expect(() => createStint({ database: "postgres://x/y", telemetry: {} as never })).toThrow(
    "createStint.telemetry.enqueue: must be a function",
  );
});
