import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";
import { telemetry } from "./spans.ts";

const first = defineJob("first", { queue: "first", payload: typed<object>() });
const second = defineJob("second", { queue: "second", payload: typed<object>() });
const child = defineJob("child", { queue: "child", payload: typed<object>() });

test("a continuation and a child belong to the trace of the attempt they follow", async () => {
  const fresh = await freshSchema();
  const otel = telemetry();
  const stint = fresh.client({ telemetry: otel.telemetry });
  await startWorker(stint, {
    pools: { first: 1, second: 1, child: 1 },
    handlers: [
      handle(first, ({ spawn, continueWith }) => {
        spawn(child, {}, { delay: 1 });
        return continueWith(second, {}, { meta: { user: "u1" } });
      }),
      handle(second, ({ meta }) => expect(meta["user"]).toBe("u1")),
      handle(child, () => undefined),
    ],
  });
  const job = await otel.within("request", () => stint.enqueue(first, {}));
  await stint.waitFor(job, { timeout: "60s" });

  const [request] = await otel.ended("request");
  const [attempt] = await otel.ended("process first");
  const [follows] = await otel.ended("process second");
  const [spawned] = await otel.ended("process child");
  const sent = otel
    .spans()
    .find(({ parentSpanContext }) => parentSpanContext?.spanId === attempt!.spanContext().spanId);
  expect(follows!.spanContext().traceId).toBe(request!.spanContext().traceId);
  expect(follows!.parentSpanContext?.spanId).toBe(sent!.spanContext().spanId);
  // A delayed job starts a trace of its own, as every delayed enqueue does.
  expect(spawned!.links[0]?.context.traceId).toBe(request!.spanContext().traceId);
});
