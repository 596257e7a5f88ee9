import { expect, test } from "vitest";
import { defineJob, handle, LeaseLostError, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { steal } from "../support/steal.ts";
import { gate } from "../support/gate.ts";
import { abortOf, startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), result: typed<string>() });

test.each(["returns", "throws"])(
  "a handler that %s after its job was rescued records nothing",
  async (how) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const running = gate();
    const end = gate();
    const { seen, all } = await startWorker(stint, {
      pools: { default: 1 },
      handlers: [
        handle(work, async () => {
          running.open();
          await end.opened;
          if (how === "throws") throw new Error("late");
          return "late";
        }),
      ],
    });
    const { id } = await stint.enqueue(work, {});
    await running.opened;
    const thief = await steal(fresh, id);
    end.open();

    expect(await seen("leaseLost")).toEqual({ id, kind: "work", key: null, attempt: 1, epoch: 1 });
    expect(all("settled")).toEqual([]);
    expect(await stint.get(id)).toMatchObject({
      state: "running",
      worker: "thief",
      epoch: thief.fence.epoch,
      attempts: 1,
      crashes: 1,
      log: [{ outcome: "crashed" }],
    });
  },
);

test("a handler's signal aborts when its lease is lost", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const running = gate();
  const aborted = gate<unknown>();
  const { seen } = await startWorker(stint, {
    pools: { default: 1 },
    lease: "1s",
    handlers: [
      handle(work, async ({ signal }) => {
        running.open();
        aborted.open(await abortOf(signal));
        throw signal.reason;
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});
  await running.opened;
  await steal(fresh, id);

  expect(await aborted.opened).toBeInstanceOf(LeaseLostError);
  await seen("leaseLost");
  expect(await stint.get(id)).toMatchObject({ state: "running", worker: "thief" });
});
