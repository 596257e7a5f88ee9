import type { Run } from "../db/db.ts";
import { breachInMs, type Flow } from "../model/breach.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import { targetAges, type TargetAge } from "../model/queue-settings.ts";
import { percentiles } from "../telemetry/histogram.ts";
import { workerActivity, type WorkerActivity } from "../sql/worker-activity.ts";
import { standing, type QueuePause, type Standing, type StandingWithTargets } from "../sql/depth.ts";
import { lately, type QueueLately } from "../sql/series.ts";
import { attemptsOf, depthBy, sumDepth, sumSeries, toRates } from "./figures.ts";
import { toSlowJobs } from "./slow.ts";
import type { Depth, Health, QueueHealth, QueuePaused } from "./types.ts";

/** A kind counts as unserved after this wait: a shorter one may only mean that all workers are busy. */
const unservedAfterMs = 10_000;
const minuteMs = 60_000;
const minutesShown = 30;
const nothing = sumSeries([]);
/** The period for judging whether a queue grows: a single minute is too noisy. */
const steadyMs = 5 * minuteMs;

export async function health(db: Run): Promise<Health> {
  const [steps, { stands, crewed }] = await Promise.all([lately(db), present(db)]);
  const targetOf = targetAges(stands.targets);
  const pausedOf = new QueueMap(stands.pauses.map((pause) => [pause.queue, toPaused(pause)]));
  const at = new Date(stands.at);
  const depth = new Map(
    depthBy(stands.depth, ({ queue }) => ({ queue })).map(({ queue, depth: own }) => [queue, own]),
  );
  const ages = new Map(stands.ages.map((own) => [own.queue, own]));
  const happened = new Map(steps.map((own) => [own.queue, own]));
  const workers = crewed.workers.map(({ pools, draining }) => ({
    slots: new QueueMap(Object.entries(pools)),
    draining,
  }));
  const served = workers.flatMap(({ slots }) => slots.names);
  const names = new Set([...depth.keys(), ...happened.keys(), ...served]);
  const none = sumDepth([]);
  const queues = [...names].map((queue) =>
    toQueueHealth({
      queue,
      at,
      depth: depth.get(queue) ?? none,
      ages: ages.get(queue),
      lately: happened.get(queue),
      workers,
      unserved: crewed.unserved.filter((kind) => kind.queue === queue),
      target: targetOf(queue),
      paused: pausedOf.get(queue) ?? null,
    }),
  );
  return {
    at,
    queues: queues.sort(bySoonestBreach),
    total: sumDepth([...depth.values()]),
    workers: crewed.workers.length,
    slow: toSlowJobs(crewed.perhapsSlow, crewed.runs).length,
    unserved: crewed.unserved,
  };
}

/** Sequentially: both scan the index of leases, and the first scan marks dead entries for the second. */
async function present(db: Run): Promise<{ stands: StandingWithTargets; crewed: WorkerActivity }> {
  const stands = await standing(db);
  return { stands, crewed: await workerActivity(db, unservedAfterMs) };
}

function toPaused({ queue, until, pausedAt, ...pause }: QueuePause): QueuePaused {
  return {
    ...pause,
    setFor: queue,
    until: until === null ? null : new Date(until),
    pausedAt: new Date(pausedAt),
  };
}

type ServingWorker = { readonly slots: QueueMap<number>; readonly draining: boolean };

function toQueueHealth(input: {
  queue: string;
  at: Date;
  depth: Depth;
  ages: Standing["ages"][number] | undefined;
  lately: QueueLately | undefined;
  workers: readonly ServingWorker[];
  unserved: Health["unserved"];
  target: TargetAge;
  paused: QueuePaused | null;
}): QueueHealth {
  const { queue, at, depth, ages, workers, unserved, target, paused } = input;
  const targetMs = target.ms;
  const minutes = (input.lately?.minutes ?? []).map(toMinute);
  const lastMinutes = input.lately?.ten ?? nothing;
  // The current step and the six before it.
  const seconds = 60 + (at.getTime() % 10_000) / 1_000;
  const rates = toRates(input.lately?.one ?? nothing, seconds);
  const attempts = attemptsOf(lastMinutes);
  const held = workers.filter(({ slots }) => slots.has(queue));
  const serving = held.filter(({ draining }) => !draining);
  const total = slotsOf(serving, queue);
  const oldestReadyMs = ages?.oldestReadyMs == null ? null : Math.max(0, ages.oldestReadyMs);
  return {
    queue,
    depth,
    oldestReadyMs,
    targetMs,
    targetFrom: { source: target.source, setFor: target.setFor },
    paused,
    // No job of a paused queue starts, on purpose: its age would be an alarm that no person can act on.
    breachInMs: soonest(
      paused === null
        ? [
            breachInMs({
              ...rates,
              seconds,
              oldestReadyMs,
              ready: depth.ready,
              targetMs,
              steady: steadyFlow(at, minutes),
            }),
            // No worker takes these jobs, at any rate of the others.
            ...unserved.map((kind) => Math.max(0, targetMs - kind.oldestReadyMs)),
          ]
        : [],
    ),
    rates,
    drainMs: paused !== null || unserved.length > 0 ? null : drainMs(depth.ready, rates.ended),
    retryShare: attempts === 0 ? null : Math.min(1, lastMinutes.retried / attempts),
    oldestDeadMs: ages?.oldestDeadMs ?? null,
    wait: percentiles(lastMinutes.wait),
    run: percentiles(lastMinutes.run),
    slots: {
      busy: total > 0 ? Math.min(depth.running, total) : depth.running,
      total,
      ahead: held.length === 0 ? 0 : Math.max(0, depth.running - slotsOf(held, queue)),
    },
    workers: serving.length,
    recent: byMinute(at, minutes),
  };
}

type Minute = {
  readonly at: number;
  readonly arrived: number;
  readonly ended: number;
  readonly ready: number | null;
};

function toMinute([at, arrived, ended, ready]: NonNullable<QueueLately["minutes"]>[number]): Minute {
  return { at, arrived, ended, ready };
}

/** The last five minutes and the current one, or the age of the queue's figures if that is shorter. */
function steadyFlow(at: Date, minutes: readonly Minute[]): Flow {
  const since = Math.floor(at.getTime() / minuteMs) * minuteMs - steadyMs;
  const own = minutes.filter((minute) => minute.at >= since);
  const from = minutes.some((minute) => minute.at < since)
    ? since
    : Math.min(at.getTime(), ...own.map((minute) => minute.at));
  const seconds = Math.max(1, (at.getTime() - from) / 1_000);
  const sum = (of: "arrived" | "ended"): number => own.reduce((all, minute) => all + minute[of], 0);
  return { arrived: sum("arrived") / seconds, ended: sum("ended") / seconds, seconds };
}

function slotsOf(workers: readonly ServingWorker[], queue: string): number {
  return workers.reduce((sum, { slots }) => sum + (slots.get(queue) ?? 0), 0);
}

function soonest(times: readonly (number | null)[]): number | null {
  return times.reduce((first, time) => (time === null ? first : Math.min(time, first ?? time)), null);
}

function drainMs(ready: number, endedPerSecond: number): number | null {
  if (ready === 0) return 0;
  return endedPerSecond === 0 ? null : (1_000 * ready) / endedPerSecond;
}

function byMinute(at: Date, minutes: readonly Minute[]): QueueHealth["recent"] {
  const byStart = new Map(minutes.map((minute) => [minute.at, minute]));
  const last = Math.floor(at.getTime() / minuteMs) * minuteMs;
  let ready = 0;
  return Array.from({ length: minutesShown }, (_, n) => {
    const start = last - (minutesShown - 1 - n) * minuteMs;
    const step = byStart.get(start);
    // No sample is taken while nothing changes.
    ready = step?.ready ?? ready;
    return {
      at: new Date(start),
      arrived: step?.arrived ?? 0,
      ended: step?.ended ?? 0,
      ready,
    };
  });
}

function bySoonestBreach(a: QueueHealth, b: QueueHealth): number {
  const left = a.breachInMs ?? Infinity;
  const right = b.breachInMs ?? Infinity;
  if (left !== right) return left < right ? -1 : 1;
  return (b.oldestReadyMs ?? 0) - (a.oldestReadyMs ?? 0) || (a.queue < b.queue ? -1 : 1);
}
