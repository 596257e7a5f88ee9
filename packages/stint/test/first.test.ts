import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "./support/fresh.ts";

test("an enqueued job runs, and its result can be awaited", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const add = defineJob("add", { payload: typed<{ a: number; b: number }>(), result: typed<number>() });
  const worker = stint.worker({
    pools: { default: 2 },
    signals: false,
    handlers: [handle(add, ({ payload }) => payload.a + payload.b)],
  });
  await worker.start();

  const job = await stint.enqueue(add, { a: 2, b: 3 });
  const result = await stint.waitFor(job, { timeout: "60s" });
  await worker.stop();

  expect(result).toBe(5);
  expect(await stint.get(job.id)).toMatchObject({ state: "succeeded", attempts: 1, epoch: 1, result: 5 });
});
