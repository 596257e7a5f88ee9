import { expect, test } from "vitest";
import { defineJob, entry, handle, typed, type Handler, type Stint } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const first = defineJob("first", { payload: typed<number>(), result: typed<number>() });
const second = defineJob("second", { payload: typed<number>(), result: typed<number>() });
const undo = defineJob("undo", { payload: typed<number>() });

async function work(stint: Stint, handlers: Handler[]): Promise<void> {
  await stint.worker({ pools: { default: 4 }, attempts: 1, handlers }).start();
}

/** A handler that ignores the cancel that the test sends while it runs. */
function held(): { started: Promise<void>; begin: () => Promise<void>; end: () => void } {
  const [started, ended] = [gate(), gate()];
  return {
    started: started.opened,
    begin: async () => {
      started.open();
      await ended.opened;
    },
    end: () => ended.open(),
  };
}

test("a chain whose job was cancelled while it ran does not continue", async () => {
  const stint = (await freshSchema()).client();
  const run = held();
  const ran: number[] = [];
  await work(stint, [
    handle(first, async ({ payload, continueWith }) => {
      await run.begin();
      return continueWith(second, payload + 1);
    }),
    handle(second, ({ payload }) => ran.push(payload)),
  ]);
  const job = await stint.enqueue(first, 1);
  const waiting = await stint.enqueue(second, 9, { after: [job], onFailure: "cancel" });
  await run.started;
  await stint.cancel(job.id);
  run.end();

  await expect(stint.waitFor(job, { timeout: "60s" })).rejects.toThrow(/cancelled/);
  await expect(stint.waitFor(waiting, { timeout: "60s" })).rejects.toThrow(/cancelled/);
  expect(await stint.flows.get(job.id)).toMatchObject({ live: 0, succeeded: 1, cancelled: 2 });
  expect(ran).toEqual([]);
});

test("a cancelled chain with compensations is undone", async () => {
  const stint = (await freshSchema()).client();
  const run = held();
  const undone: number[] = [];
  await work(stint, [
    handle(first, async ({ payload, continueWith }) => {
      await run.begin();
      return continueWith(second, payload + 1);
    }),
    handle(second, ({ payload }) => payload),
    handle(undo, ({ payload }) => void undone.push(payload)),
  ]);
  const job = await stint.enqueue(first, 1, { compensate: entry(undo, 7) });
  await run.started;
  await stint.cancel(job.id);
  run.end();

  await until(() => undone.length > 0);
  await expect(stint.waitFor(job, { timeout: "60s" })).rejects.toThrow(/cancelled/);
  expect(undone).toEqual([7]);
});

test("a series whose run was cancelled while it ran ends with it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const run = held();
  await work(stint, [
    handle(first, async ({ again }) => {
      await again({ in: "1h" });
      await run.begin();
      return 1;
    }),
  ]);
  const job = await stint.enqueue(first, 1);
  await run.started;
  await stint.cancel(job.id);
  run.end();

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(1);
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(1);
});
