import { expect, test } from "vitest";
import { defineJob, handle, steps, typed } from "#stint/index.js";
import { rescue } from "#stint/sql/rescue.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), backoff: steps("1h") });

const endings = {
  succeeds: () => undefined,
  "returns a result": () => "a result",
  fails: () => {
    throw new Error("broken");
  },
};
type How = keyof typeof endings;

test.each<{ stale: How; current: How; state: string; outcome: string }>([
  { stale: "succeeds", current: "fails", state: "retrying", outcome: "failed" },
  { stale: "succeeds", current: "succeeds", state: "succeeded", outcome: "succeeded" },
  { stale: "returns a result", current: "fails", state: "retrying", outcome: "failed" },
  { stale: "returns a result", current: "returns a result", state: "succeeded", outcome: "succeeded" },
  { stale: "fails", current: "succeeds", state: "succeeded", outcome: "succeeded" },
  { stale: "fails", current: "fails", state: "retrying", outcome: "failed" },
])("a stale attempt that $stale beside a current one that $current is lost", async (scenario) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const running = new Map([1, 2].map((epoch) => [epoch, gate()]));
  const end = gate();
  const { seen, all } = await startWorker(stint, {
    // No renewal comes before the end, so the worker does not know that its first attempt is stale.
    lease: "10m",
    handlers: [
      handle(work, async ({ fence }) => {
        running.get(fence.epoch)!.open();
        await end.opened;
        return endings[fence.epoch === 1 ? scenario.stale : scenario.current]();
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});
  await running.get(1)!.opened;
  await until(
    async () => {
      // Again, if need be: a worker that begins to listen renews what it holds.
      await fresh.sql("update stint.job set lease_until = 'epoch' where state = 'running' and epoch = 1");
      await rescue(fresh.db, { limit: 10, maxCrashes: 10 });
      return (await stint.get(id))?.crashes === 1;
    },
    { message: "the job is rescued" },
  );
  await running.get(2)!.opened;
  end.open();

  expect(await seen("leaseLost")).toMatchObject({ id, epoch: 1 });
  expect(await seen("settled")).toMatchObject({ id, outcome: scenario.outcome, state: scenario.state });
  expect([all("settled").length, all("leaseLost").length]).toEqual([1, 1]);
  expect(await stint.get(id)).toMatchObject({ state: scenario.state, crashes: 1, epoch: 2 });
});
