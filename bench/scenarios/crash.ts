import { setTimeout as sleep } from "node:timers/promises";
import type { Actor } from "../actor/spawn.ts";
import { nowMs } from "../core/clock.ts";
import { defineScenario, type Variant } from "../core/scenario.ts";
import type { StintWork } from "../actor/tasks/stint.ts";

type Crash = Variant & { options: StintWork };

/** Stint only: graphile-worker recovers a job after four hours by default, pg-boss after fifteen minutes. That is too long for a cell. */
export const crash = defineScenario<Crash>({
  name: "crash",
  what: "s from kill -9 of a worker in the middle of a job to that job starting in another, idle worker",
  deadlineSeconds: 120,
  variants: (quick) => [
    ...(quick ? [] : [{ name: "default", options: {} }]),
    { name: "lease 5s", options: { lease: "5s" } },
  ],
  includes: ({ system, config }) => system === "stint" && config === "default",
  measure: async (bench, { variant: { options }, quick }) => {
    const [producer, victim, heir] = await Promise.all([bench.spawn(), bench.spawn(), bench.spawn()]);
    await producer.call("prepare");
    await victim.call("stintWork", { ...options, holds: true });
    await producer.call("paced", { count: 1, minGapMs: 1, maxGapMs: 2 });
    await firstStart(victim, 10);
    await heir.call("stintWork", options);
    // Long enough for the second worker to be idle and for the victim to have renewed its lease. Random, so that kills hit
    // every moment of the renewal cycle.
    await sleep(quick ? 1_000 : 2_000 + 3_000 * Math.random());

    const killedMs = nowMs();
    await victim.kill();
    const startedMs = await firstStart(heir, 90);
    return [{ unit: "s", value: (startedMs - killedMs) / 1000 }];
  },
});

async function firstStart(worker: Actor, seconds: number): Promise<number> {
  const deadlineMs = nowMs() + seconds * 1000;
  while (nowMs() < deadlineMs) {
    const [start] = (await worker.call("stintStarts", { from: 0 })).starts;
    if (start !== undefined) return start[3];
    await sleep(20);
  }
  throw new Error(`the job had not started after ${seconds} s`);
}
