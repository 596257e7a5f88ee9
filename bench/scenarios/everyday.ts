import { setTimeout as sleep } from "node:timers/promises";
import type { Client as PgClient } from "pg";
import { nowMs } from "../core/clock.ts";
import { cpuMsOf, cpuMsOfServer } from "../core/proc.ts";
import { defineScenario, type Bench, type Measurement, type Variant } from "../core/scenario.ts";
import { countCommands, countStatements, type StatementCounter } from "../core/statements.ts";
import { percentile } from "../core/stats.ts";
import type { SystemName } from "../systems/index.ts";

/** Before every measurement, for every system. */
const warmUpRate = 300;
const warmUpSeconds = 8;

type Rate = Variant & { rate: number };

export const everyday = defineScenario<Rate>({
  name: "everyday",
  what: "the rates most teams have, one worker: ms from the enqueue call to the handler, and what a job costs the server and the worker",
  variants: (quick) =>
    (quick ? [50, 500] : [10, 50, 200, 500, 1000]).map((rate) => ({ name: `${rate}/s`, rate })),
  includes: ({ system, config, quick }) => {
    if (config !== (system === "stint" ? "default" : "fast")) return false;
    return !quick || ["stint", "ceiling", "graphile-worker", "bullmq-redis"].includes(system);
  },
  measure: async (bench, { system, variant: { rate }, quick }) => {
    const onRedis = system === "bullmq-redis";
    // Must precede the actors' connections: already open sessions are not counted.
    const store = await (onRedis ? countCommands : countStatements)(bench);
    const commits = onRedis ? undefined : await bench.connect();
    try {
      return await measured(bench, { system, rate, seconds: quick ? 4 : 30, store, commits });
    } finally {
      await store.end();
    }
  },
});

type Cost = { statements: number; commits: number; server: number; worker: number };

type Run = {
  readonly system: SystemName;
  readonly rate: number;
  readonly seconds: number;
  readonly store: StatementCounter;
  readonly commits: PgClient | undefined;
};

async function measured(bench: Bench, run: Run): Promise<Measurement[]> {
  const { system, rate, seconds, store } = run;
  const [producer, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
  await producer.call("prepare");
  await worker.call("work");
  // A worker of everyday work has run for hours. In its first thousands of jobs, much of the CPU goes into the compiler, on threads of its own.
  const { sent: first } = await producer.call("openLoop", {
    rate: warmUpRate,
    seconds: warmUpSeconds,
    since: "call",
  });
  const warmUntil = nowMs() + 10_000;
  while ((await worker.call("progress")).count < first && nowMs() < warmUntil) await sleep(20);
  await sleep(500);
  const warm = (await worker.call("progress")).count;
  const look = async (): Promise<Cost> => ({
    commits: run.commits === undefined ? 0 : await commitsOf(run.commits),
    server: await cpuMsOfServer(store.serverPid),
    worker: await cpuMsOf(worker.pid),
    statements: await store.count(),
  });

  const before = await look();
  const { sent, failed, firstError } = await producer.call("openLoop", { rate, seconds, since: "call" });
  if (failed > 0) bench.note(`${failed} enqueues failed, the first of them: ${firstError}`);
  const deadlineMs = nowMs() + 5_000;
  while ((await worker.call("progress")).count < warm + sent && nowMs() < deadlineMs) await sleep(20);
  const after = await look();
  const ms = (await worker.call("latencies")).ms.slice(warm);
  if (ms.length < sent)
    bench.note(`${system} at ${rate}/s: ${sent - ms.length} of ${sent} jobs did not start`);

  const perJob = (cost: keyof Cost): number => (after[cost] - before[cost]) / ms.length;
  return [
    { suffix: "p50", unit: "ms", value: percentile(ms, 0.5) },
    { suffix: "p95", unit: "ms", value: percentile(ms, 0.95) },
    { suffix: "server", unit: "µs of CPU/job", value: perJob("server") * 1000 },
    { suffix: "worker", unit: "µs of CPU/job", value: perJob("worker") * 1000 },
    { suffix: "total", unit: "µs of CPU/job", value: (perJob("server") + perJob("worker")) * 1000 },
    { suffix: "statements", unit: "statements/job", value: perJob("statements") },
    ...(run.commits === undefined
      ? []
      : [{ suffix: "commits", unit: "commits/job", value: perJob("commits") }]),
  ];
}

/** Committed transactions in this database. Sessions report them when idle, at most a second later. */
async function commitsOf(client: PgClient): Promise<number> {
  await sleep(1_100);
  const { rows } = await client.query<{ n: string }>(
    "select xact_commit as n from pg_stat_database where datname = current_database()",
  );
  return Number(rows[0]?.n);
}
