import { AsyncLocalStorage } from "node:async_hooks";
import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<null>() });

test("a handler does not run in the async context of the request that enqueued", async () => {
  const stint = (await freshSchema()).client();
  const request = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  await startWorker(stint, {
    handlers: [handle(work, () => void seen.push(request.getStore()))],
  });

  // Each enqueue wakes the resting worker of its own process.
  for (let n = 0; n < 5; n++) {
    const job = await request.run(`request ${n}`, async () => await stint.enqueue(work, null));
    await stint.waitFor(job, { timeout: "60s" });
  }
  expect(seen).toEqual([undefined, undefined, undefined, undefined, undefined]);
});
