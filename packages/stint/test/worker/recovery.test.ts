import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { jitter } from "#stint/runtime/sleep.js";
import { resolveWorkerOptions } from "#stint/worker/options.js";
import { freshSchema } from "../support/fresh.ts";
import { scripted, fast, startWorkerProcess } from "../support/worker-process.ts";

const work = defineJob("work", { payload: typed<object>() });
const handlers = [handle(work, () => undefined)];

/** The longest that a crash can go unnoticed: a whole lease, and the longest rest between two looks. */
function longestRecoveryMs(options: object): number {
  const { leaseMs, rescueEveryMs } = resolveWorkerOptions({ pools: { default: 1 }, handlers, ...options });
  const longestRest = Math.max(...Array.from({ length: 1_000 }, () => jitter(rescueEveryMs)));
  expect(longestRest).toBeLessThanOrEqual(rescueEveryMs * 1.2);
  return leaseMs + rescueEveryMs * 1.2;
}

test("recovery from a crash takes 40 s by default, and 8 s if configured", () => {
  expect(longestRecoveryMs({})).toBeLessThanOrEqual(40_000);
  expect(longestRecoveryMs({ lease: "5s" })).toBeLessThanOrEqual(8_000);
});

test("a job is recovered once its lease has run out and a worker has looked", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [doomed, heir] = await Promise.all([
    startWorkerProcess(fresh, { kinds: ["scripted"] }),
    startWorkerProcess(fresh, { kinds: ["bystander"] }),
  ]);
  const { id } = await stint.enqueue(scripted, { do: "hang" });
  await doomed.reported("entered", id);
  doomed.kill("SIGKILL");
  await doomed.ended;
  const leaseUntil = (await stint.get(id))!.leaseUntil!;
  await heir.reported("rescued");

  const { state, log } = (await stint.get(id))!;
  expect(state).toBe("ready");
  const lateMs = log[0]!.endedAt.getTime() - leaseUntil.getTime();
  expect(lateMs).toBeGreaterThanOrEqual(0);
  // One look's time, with room for a loaded machine.
  expect(lateMs).toBeLessThan(fast.rescueEvery * 1.2 + 20_000);
});
