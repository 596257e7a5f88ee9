import { setTimeout as sleep } from "node:timers/promises";
import { sorts, type MixedSent } from "../actor/tasks/mixed.ts";
import type { Start } from "../actor/tasks/stint.ts";
import { nowMs } from "../core/clock.ts";
import type { Bench, Measurement } from "../core/scenario.ts";
import { percentile } from "../core/stats.ts";

const rate = 1_000;
const backoffMs = 300;
const heldMs = 2_000;
/** A job that has not run by then counts as late. */
const graceMs = 20_000;

/**
 * Jobs arrive steadily in three priorities; one in twenty fails once. Compares the number of runs and their latency in the first and last
 * window. Also measures the wait of jobs that sort before all claimed ones: late commits, retries, new priorities.
 */
export async function measureSteady(
  bench: Bench,
  quick: boolean,
  pin: (bench: Bench) => Promise<void>,
): Promise<Measurement[]> {
  const seconds = quick ? 10 : 60;
  const [producer, worker] = await Promise.all([bench.spawn(), bench.spawn()]);
  await producer.call("prepare");
  await worker.call("stintWork", { backoff: `${backoffMs}ms` });
  await producer.call("paced", { count: 50, minGapMs: 2, maxGapMs: 6 });
  await sleep(1_000);
  const { starts: warmUp } = await worker.call("stintStarts", { from: 0 });
  await pin(bench);

  const sent = await producer.call("mixedArrivals", {
    rate,
    seconds,
    heldMs,
    lateEveryMs: quick ? 500 : 1_000,
  });
  if (sent.failed > 0) bench.note(`${sent.failed} of ${sent.sent} enqueues failed`);
  let starts: Start[] = [];
  const deadlineMs = nowMs() + graceMs;
  let left = sent.sent;
  while (left > 0 && nowMs() < deadlineMs) {
    await sleep(200);
    const from = warmUp.length + starts.length;
    starts = starts.concat((await worker.call("stintStarts", { from })).starts);
    left = sent.sent - new Set(starts.map(([n]) => n)).size;
  }
  if (left > 0)
    bench.note(`${left} of ${sent.sent} jobs had not started ${graceMs / 1000} s after the last enqueue`);
  return summarise(starts, sent, seconds);
}

function summarise(starts: readonly Start[], sent: MixedSent, seconds: number): Measurement[] {
  const { beganMs } = sent;
  const steady = starts.filter(([n, , attempt]) => n < sorts.urgent && attempt === 1);
  // Warm-up: at first the queue is empty and still filling.
  const windowMs = (seconds * 1000) / 6;
  const first = inWindow(steady, beganMs, windowMs);
  const last = inWindow(steady, beganMs + 5 * windowMs, windowMs);
  const committed = new Map(sent.late.map(({ n, committedMs }) => [n, committedMs]));
  const firstStart = new Map(starts.filter(([, , attempt]) => attempt === 1).map(([n, , , ms]) => [n, ms]));
  const late = starts.flatMap(([n, , , ms]) => {
    const committedMs = committed.get(n);
    return committedMs === undefined ? [] : [ms - committedMs];
  });
  const urgent = starts.filter(([n]) => n >= sorts.urgent && n < sorts.late).map(([, at, , ms]) => ms - at);
  const retries = starts
    .filter(([, , attempt]) => attempt > 1)
    .map(([n, , , ms]) => ms - (firstStart.get(n) ?? ms) - backoffMs);
  return [
    { suffix: "first window", unit: "jobs/s", value: first.perSecond },
    { suffix: "last window", unit: "jobs/s", value: last.perSecond },
    { suffix: "last of first window", unit: "%", value: (100 * last.perSecond) / first.perSecond },
    { suffix: "first window p50", unit: "ms", value: percentile(first.latencies, 0.5) },
    { suffix: "last window p50", unit: "ms", value: percentile(last.latencies, 0.5) },
    { suffix: "first window p99", unit: "ms", value: percentile(first.latencies, 0.99) },
    { suffix: "last window p99", unit: "ms", value: percentile(last.latencies, 0.99) },
    ...spread("late commits", late),
    ...spread("retries", retries),
    ...spread("new higher priorities", urgent),
  ];
}

function inWindow(
  starts: readonly Start[],
  fromMs: number,
  lengthMs: number,
): { perSecond: number; latencies: number[] } {
  const started = starts.filter(([, , , ms]) => ms >= fromMs && ms < fromMs + lengthMs);
  const meant = starts.filter(([, at]) => at >= fromMs && at < fromMs + lengthMs);
  return {
    perSecond: (started.length * 1000) / lengthMs,
    latencies: meant.map(([, at, , ms]) => ms - at),
  };
}

function spread(what: string, values: readonly number[]): Measurement[] {
  if (values.length === 0) return [];
  return [
    { suffix: `${what} p50`, unit: "ms", value: percentile(values, 0.5) },
    { suffix: `${what} max`, unit: "ms", value: Math.max(...values) },
  ];
}
