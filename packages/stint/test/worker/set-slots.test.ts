import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const wait = defineJob("wait", { payload: typed<object>() });

test("slots are added and taken away while the worker runs; running jobs finish", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ends: (() => void)[] = [];
  const { worker } = await startWorker(stint, {
    pools: { default: 1 },
    handlers: [
      handle(wait, async () => {
        const end = gate();
        ends.push(end.open);
        await end.opened;
      }),
    ],
  });
  const begun = async (count: number): Promise<unknown> =>
    await until(() => ends.length === count, { message: `${count} handlers have begun` });
  await stint.enqueueMany(Array.from({ length: 8 }, () => entry(wait, {})));
  await begun(1);

  await worker.setSlots("default", 3);
  await begun(3);
  expect(worker.pools).toMatchObject([{ pool: "default", slots: 3, busy: 3 }]);
  expect(await fresh.sql("select pools from stint.worker")).toEqual([{ pools: { default: 3 } }]);

  await worker.setSlots("default", 1);
  ends[0]?.();
  ends[1]?.();
  await until(() => worker.pools[0]?.busy === 1, { message: "two of three have ended" });
  expect(ends).toHaveLength(3);
  ends[2]?.();
  await begun(4);

  await worker.setSlots("default", 0);
  ends[3]?.();
  await until(() => worker.running === 0, { message: "the last one has ended" });
  await until(async () => (await fresh.sql("select from stint.job where state = 'running'")).length === 0);
  expect(ends).toHaveLength(4);
  await worker.setSlots("default", 4);
  await begun(8);
  for (const end of ends) end();
});

test("a pool that the worker does not have and a wrong number are refused", async () => {
  const fresh = await freshSchema();
  const worker = fresh
    .client()
    .worker({ pools: { default: 1 }, signals: false, handlers: [handle(wait, () => 1)] });
  await expect(worker.setSlots("defalt", 2)).rejects.toThrow('did you mean "default"?');
  for (const slots of [-1, 1.5, NaN, 10_001, "2" as never])
    await expect(worker.setSlots("default", slots)).rejects.toThrow("setSlots(slots)");
  expect(worker.pools).toMatchObject([{ slots: 1 }]);
});
