import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";
import { clients } from "../support/transactions.ts";

const note = defineJob("note", { payload: typed<number>(), result: typed<string>() });
const sum = defineJob("sum", { payload: typed<object>(), result: typed<unknown>() });

test.each(clients)("with %s complete, change and schedules follow the commit", async (_, inTransaction) => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [note] });
  const [done, changed] = await Promise.all([
    stint.enqueue(note, 1, { delay: "1h" }),
    stint.enqueue(note, 1, { delay: "1h" }),
  ]);
  const act = async (tx: Parameters<typeof stint.in>[0]): Promise<void> => {
    const inside = stint.in(tx);
    await inside.complete(done, "by phone", { reason: "asked" });
    await inside.change(changed.id, { payload: 2, priority: 3 });
    await inside.schedules.set("nightly", { cron: "0 3 * * *", job: note, payload: 1 });
    await inside.schedules.pause("nightly");
  };

  const rolledBack = inTransaction(fresh.url, async (tx) => {
    await act(tx);
    throw new Error("no");
  });
  await expect(rolledBack).rejects.toThrow("no");
  expect(await stint.get(done)).toMatchObject({ state: "scheduled" });
  expect(await stint.get(changed)).toMatchObject({ payload: 1, priority: 0 });
  expect(await stint.schedules.get("nightly")).toBeUndefined();
  expect(await stint.audit(done.id)).toEqual([]);

  await inTransaction(fresh.url, act);
  expect(await stint.get(done)).toMatchObject({ state: "succeeded", result: "by phone" });
  expect(await stint.get(changed)).toMatchObject({ payload: 2, priority: 3 });
  expect(await stint.schedules.get("nightly")).toMatchObject({ name: "nightly", state: "paused" });
  expect(await stint.audit(done.id)).toMatchObject([{ action: "complete", reason: "asked" }]);
});

test("in a transaction, a job that runs or has ended is refused with a typed error", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [note] });
  const job = await stint.enqueue(note, 1);
  await stint.cancel(job.id);
  const [, inTransaction] = clients[0]!;
  await inTransaction(fresh.url, async (tx) => {
    const inside = stint.in(tx);
    await expect(inside.complete(job)).rejects.toMatchObject({ code: "WRONG_STATE", state: "cancelled" });
    await expect(inside.change(job, { priority: 1 })).rejects.toMatchObject({ code: "WRONG_STATE" });
    await expect(inside.complete("00000000-0000-7000-8000-000000000000")).rejects.toMatchObject({
      code: "JOB_NOT_FOUND",
    });
    await expect(inside.schedules.pause("none")).rejects.toMatchObject({ code: "SCHEDULE_NOT_FOUND" });
    await expect(
      inside.schedules.set("x", { cron: "61 * * * *", job: note, payload: 1 }),
    ).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});

test("a job that waits for a completed one receives its result", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const approval = await stint.enqueue(note, 1, { delay: "1h" });
  const after = await stint.enqueue(sum, {}, { after: [approval] });
  await startWorker(stint, {
    handlers: [handle(sum, async ({ results }) => (await results()).map(({ result }) => result))],
  });
  await stint.complete(approval, "yes");
  expect(await stint.waitFor(after, { timeout: "60s" })).toEqual(["yes"]);
});
