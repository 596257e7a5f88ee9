import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../core/clock.ts";
import { cpuMsOf, cpuMsOfServer } from "../core/proc.ts";
import { defineScenario, type Measurement, type Variant } from "../core/scenario.ts";
import { countCommands, countStatements, type StatementCounter } from "../core/statements.ts";

type Idle = Variant & { asleep: boolean };

export const idle = defineScenario<Idle>({
  name: "idle",
  what: "what one worker process costs while nothing is to do: statements/s, and % of a core in the worker and in the whole server",
  deadlineSeconds: 120,
  variants: (quick) => [
    { name: "1 process", asleep: false },
    ...(quick ? [] : [{ name: "1 process, sleep mode", asleep: true }]),
  ],
  includes: ({ system, config, variant: { asleep }, quick }) => {
    if (config !== "default" || system === "ceiling") return false;
    return system === "stint" || (!quick && !asleep);
  },
  measure: async (bench, { system, variant: { asleep }, quick }) => {
    const installer = await bench.spawn();
    await installer.call("prepare");
    // Some systems run maintenance from every process that uses the store.
    await installer.kill();
    const store = await (system === "bullmq-redis" ? countCommands : countStatements)(bench);
    try {
      const worker = await bench.spawn();
      if (asleep) await worker.call("stintWork", { sleep: "2s" });
      else await worker.call("work");
      await sleep(quick ? 5_000 : 30_000);
      return await over(quick ? 15 : 60, worker.pid, store);
    } finally {
      await store.end();
    }
  },
});

async function over(seconds: number, pid: number, store: StatementCounter): Promise<Measurement[]> {
  const look = async (): Promise<{ atMs: number; statements: number; worker: number; server: number }> => ({
    atMs: nowMs(),
    statements: await store.count(),
    worker: await cpuMsOf(pid),
    server: await cpuMsOfServer(store.serverPid),
  });
  const before = await look();
  await sleep(seconds * 1000);
  const after = await look();
  const ms = after.atMs - before.atMs;
  const statements = after.statements - before.statements;
  return [
    { suffix: "statements", unit: "statements/s", value: (statements * 1000) / ms },
    { suffix: "worker", unit: "% of a core", value: (100 * (after.worker - before.worker)) / ms },
    { suffix: "server", unit: "% of a core", value: (100 * (after.server - before.server)) / ms },
  ];
}
