import { expect, test } from "vitest";
import { defineJob, handle, steps, typed } from "stint";
import { commitOfHandler, startCutProxy } from "../../packages/stint/test/support/cut-proxy.ts";
import { freshSchema } from "../../packages/stint/test/support/fresh.ts";
import { startWorker } from "../../packages/stint/test/support/watch.ts";

const options = { payload: typed<object>(), backoff: steps("1h"), attempts: 1 };

test("a commit that hangs until the timeout of its attempt spends no attempt", async () => {
  const fresh = await freshSchema();
  await fresh.sql("create table stint.note (epoch bigint)");
  const proxy = await startCutProxy(fresh.url);
  const hang = defineJob("hang", { ...options, timeout: "1s" });
  await startWorker(fresh.client({ database: proxy.url }), {
    abort: 10,
    handlers: [
      handle(
        hang,
        async ({ complete, fence }) =>
          await complete(async (tx) => {
            await tx.query(`insert into "${fresh.schema}".note values ($1)`, [fence.epoch]);
            if (fence.epoch === 1) void proxy.holdAt(commitOfHandler);
          }),
      ),
    ],
  });
  const direct = fresh.client();
  const { id } = await direct.enqueue(hang, {});

  await direct.waitFor(id, { timeout: "60s" });
  expect(await direct.get(id)).toMatchObject({ state: "succeeded", attempts: 1, faults: 1, crashes: 0 });
  expect(await fresh.sql("select epoch::int from stint.note")).toEqual([{ epoch: 2 }]);
});
