import { expect, test } from "vitest";
import { defineJob, handle, ScheduleConflictError, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { ledger } from "./support.ts";

const load = defineJob("load", { payload: typed<number>() });
const publish = defineJob("publish", { payload: typed<number>() });

test.each(["skip", "queue"] as const)("overlap %s sees a chain as one job", async (overlap) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const end = gate();
  let loads = 0;
  const handlers = [
    handle(load, ({ continueWith }) => {
      loads += 1;
      return continueWith(publish, 1);
    }),
    handle(publish, () => end.opened),
  ];
  await stint.worker({ pools: { default: 4 }, handlers, poll: 100 }).start();
  await stint.schedules.set("nightly", { every: "1s", job: load, payload: 1, overlap });

  await until(async () => (await stint.list({ kind: "publish", state: "running" })).jobs.length === 1);
  await expect(stint.schedules.runNow("nightly")).rejects.toThrow(ScheduleConflictError);
  if (overlap === "skip")
    await until(async () => (await ledger(fresh, "nightly")).some(({ outcome }) => outcome === "skipped"));
  else
    await until(
      async () => (await fresh.sql("select from stint.schedule where due_at > next_slot")).length > 0,
    );
  expect(loads).toBe(1);

  // The end of the chain, not the safety net of 30 s, lets the next slot run.
  end.open();
  await until(() => loads > 1, { deadlineMs: 20_000 });
  await stint.schedules.remove("nightly");
});
