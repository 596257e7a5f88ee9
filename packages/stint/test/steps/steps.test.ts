import { expect, test } from "vitest";
import { defineJob, handle, StepOrderError, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<{ n: number }>(), backoff: { steps: [0] } });

test("a retry continues after the last finished step and gets its result", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step, attempt, payload }) => {
        const a = await step("a", () => {
          ran.push("a");
          return { n: payload.n + 1 };
        });
        const nothing = await step("nothing", () => void ran.push("nothing"));
        await step("b", () => {
          ran.push(`b${attempt}`);
          if (attempt === 1) throw new Error("no");
        });
        return [a, nothing === undefined];
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 });

  expect(await stint.waitFor(job, { timeout: "60s" })).toEqual([{ n: 2 }, true]);
  expect(ran).toEqual(["a", "nothing", "b1", "b2"]);
  expect(await stint.get(job)).toMatchObject({ attempts: 2 });
});

test("steps that run in parallel keep their places", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step, attempt }) => {
        const slow = step("slow", async () => {
          ran.push("slow");
          if (attempt === 1) throw new Error("no");
          return 1;
        });
        const fast = step("fast", () => {
          ran.push("fast");
          return 2;
        });
        await fast;
        return [await slow, await fast];
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 });

  expect(await stint.waitFor(job, { timeout: "60s" })).toEqual([1, 2]);
  expect(ran).toEqual(["slow", "fast", "slow"]);
});

test("a handler that sleeps frees its slot, spends no attempt and logs nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let calls = 0;
  const ran: string[] = [];
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step, sleep, attempt }) => {
        calls++;
        await step("a", () => void ran.push("a"));
        for (let n = 0; n < 25; n++) await sleep(5);
        await step("b", () => void ran.push("b"));
        return attempt;
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 });

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(1);
  expect(ran).toEqual(["a", "b"]);
  expect(calls).toBe(26);
  const found = await stint.get(job);
  expect(found).toMatchObject({ attempts: 1, interruptions: 25 });
  expect(found?.log.map(({ outcome }) => outcome)).toEqual(["succeeded"]);
});

test("a job waits for a signal, and one that came before is received at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let calls = 0;
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ waitForSignal }) => {
        calls++;
        const first = await waitForSignal("go");
        const second = await waitForSignal("go", { timeout: "1h" });
        const third = await waitForSignal("stop", { timeout: 20 });
        return [first, second, third === undefined];
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 }, { delay: "1h" });
  await stint.signal(job, "go", { early: true });
  await stint.runNow(job.id);
  await until(async () => (await stint.get(job))?.parkReason === "signal", { message: "it waits" });
  expect(calls).toBe(1);
  expect(await stint.signal(job.id, "go", "late")).toBe(job.id);

  expect(await stint.waitFor(job, { timeout: "60s" })).toEqual([{ early: true }, "late", true]);
  expect(calls).toBe(3);
});

test("a step name that changes between attempts is refused before it runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step, attempt }) => {
        await step(`charge ${attempt}`, () => void ran.push(`charge ${attempt}`));
        throw new Error("later");
      }),
    ],
  });
  const { id } = await stint.enqueue(work, { n: 1 }, { attempts: 2 });
  await until(async () => (await stint.get(id))?.state === "dead", { message: "it is dead" });

  expect(ran).toEqual(["charge 1"]);
  const job = await stint.get(id);
  expect(job?.log[1]?.error).toMatchObject({
    class: StepOrderError.name,
    message: expect.stringContaining('"charge 2"') as string,
  });
});
