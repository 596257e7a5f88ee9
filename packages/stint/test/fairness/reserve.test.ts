import { expect, test } from "vitest";
import { defineJob, entry, handle, InvalidOptionError, typed, type WorkerOptions } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<{ name: string }>() });

test("reserved slots take urgent jobs only, and are free for them at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const running = new Map<string, () => void>();
  const started: string[] = [];
  const { worker } = await startWorker(stint, {
    pools: { default: { slots: 3, reserve: { slots: 1, priority: 0 } } },
    handlers: [
      handle(work, async ({ payload: { name } }) => {
        started.push(name);
        await new Promise<void>((resolve) => running.set(name, resolve));
        running.delete(name);
      }),
    ],
  });
  await stint.enqueueMany(["a", "b", "c", "d"].map((name) => entry(work, { name }, { priority: 5 })));
  await until(() => started.length === 2, { message: "the slots for all jobs are taken" });
  // The worker has asked for urgent jobs meanwhile, and found none.
  await stint.enqueue(work, { name: "urgent" }, { priority: 0 });
  await until(() => started.includes("urgent"), { message: "the urgent job started" });
  expect(started.toSorted()).toEqual(["a", "b", "urgent"]);

  running.get("urgent")?.();
  await stint.enqueue(work, { name: "second" }, { priority: -1 });
  await until(() => started.includes("second"), { message: "the second urgent job started" });
  expect(started.slice(0, 4).toSorted()).toEqual(["a", "b", "second", "urgent"]);

  running.get("second")?.();
  running.get("a")?.();
  await until(() => started.includes("c"), { message: "the next job got the slot for all" });
  expect(started).not.toContain("d");
  for (const end of running.values()) end();
  await until(() => started.includes("d"), { message: "all jobs start" });
  for (const end of running.values()) end();
  await worker.stop();
});

test("a pool with a reserve drains a backlog of jobs that are not urgent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let ran = 0;
  await stint.enqueueMany(Array.from({ length: 200 }, () => entry(work, { name: "" }, { priority: 9 })));
  await startWorker(stint, {
    pools: { all: { queues: ["default", "other"], slots: 4, reserve: { slots: 2, priority: 0 } } },
    handlers: [handle(work, () => void (ran += 1))],
  });

  await until(() => ran >= 200, { message: "all ran", deadlineMs: 60_000 });
  expect(ran).toBe(200);
});

test("slots cannot be changed to so few that only the reserve is left", async () => {
  const stint = (await freshSchema()).client();
  const ran: string[] = [];
  const { worker } = await startWorker(stint, {
    pools: { default: { slots: 6, reserve: { slots: 3, priority: 0 } } },
    handlers: [handle(work, ({ payload: { name } }) => void ran.push(name))],
  });
  for (const slots of [1, 3])
    await expect(worker.setSlots("default", slots)).rejects.toThrow("reserved slots");
  await worker.setSlots("default", 4);
  await stint.enqueue(work, { name: "late" }, { priority: 10 });
  await until(() => ran.includes("late"), { message: "a job that is not urgent ran" });
  await worker.setSlots("default", 0);
});

test.each([
  ["as many slots as the pool", { slots: 4, priority: 0 }],
  ["no slots", { slots: 0, priority: 0 }],
  ["a fraction", { slots: 1.5, priority: 0 }],
  ["no priority", { slots: 1 }],
  ["a priority out of range", { slots: 1, priority: 100_000 }],
  ["an unknown key", { slots: 1, priority: 0, prioritty: 1 }],
  ["the name of a pool", "default"],
])("a reserve with %s is refused", async (_, reserve) => {
  const fresh = await freshSchema();
  const pools = { default: { slots: 4, reserve } } as unknown as WorkerOptions["pools"];

  expect(() => fresh.client().worker({ pools, handlers: [handle(work, () => undefined)] })).toThrow(
    InvalidOptionError,
  );
});
