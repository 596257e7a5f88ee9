import { expect, test } from "vitest";
import { defineJob, handle, park, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";

const check = defineJob("check", { payload: typed<null>() });

test("a handler parks its job for review; runNow makes it ready, unspent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const attempts: number[] = [];
  const handler = handle(check, ({ attempt }) => {
    attempts.push(attempt);
    return attempts.length === 1 ? park("review", { note: "the amount looks wrong" }) : undefined;
  });
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handler] });
  await worker.start();
  const { id } = await stint.enqueue(check, null);
  await until(async () => (await stint.get(id))?.state === "parked", { message: "it is parked" });

  expect(await stint.get(id)).toMatchObject({
    parkReason: "review",
    parkUntil: null,
    reason: "the amount looks wrong",
    attempts: 0,
    interruptions: 1,
    log: [{ outcome: "parked" }],
  });
  await stint.runNow(id);
  await until(async () => (await stint.get(id))?.state === "succeeded", { message: "it runs again" });
  await worker.stop();

  expect(attempts).toEqual([1, 1]);
});

test("a job parked until a time runs again by itself", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let runs = 0;
  const handler = handle(check, () => (++runs === 1 ? park("review", { until: 50 }) : undefined));
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handler] });
  await worker.start();
  const { id } = await stint.enqueue(check, null);

  await until(async () => (await stint.get(id))?.state === "succeeded", { message: "it runs again" });
  await worker.stop();

  expect(await stint.get(id)).toMatchObject({ attempts: 1, interruptions: 1, parkReason: null });
});

test("a park reason that handlers may not use fails the attempt and lists the allowed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const handler = handle(check, () => park("limit" as "review"));
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handler] });
  await worker.start();
  const { id } = await stint.enqueue(check, null, { attempts: 1 });
  await until(async () => (await stint.get(id))?.state === "dead", { message: "it is dead" });
  await worker.stop();

  expect((await stint.get(id))?.log[0]?.error).toMatchObject({
    class: "InvalidOptionError",
    message: expect.stringContaining("park.reason") as string,
  });
});
