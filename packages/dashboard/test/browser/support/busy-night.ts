/** A fake installation in a bad night: late, soon and healthy queues, slow jobs, old workers, unserved kinds. */
import type {
  Depth,
  Health,
  Inspector,
  JobRow,
  KindView,
  Percentiles,
  QueueHealth,
  Series,
  SeriesRange,
  SlowJob,
  WorkerView,
} from "stint/inspect";
import { capacity, stops } from "./busy-night-capacity.ts";
import { controls } from "./busy-night-controls.ts";
import { schedules } from "./busy-night-schedules.ts";
import { deadGroups, stats, waitingTenants } from "./busy-night-shares.ts";

const minute = 60_000;
const hour = 60 * minute;

/** Deterministic noise, so that two screenshots of one screen are identical. */
const wobble = (seed: number) => {
  const sine = Math.sin(seed * 12.9898) * 43_758.5453;
  return sine - Math.floor(sine);
};

const depthOf = (depth: Partial<Depth>): Depth => ({
  scheduled: 0,
  ready: 0,
  running: 0,
  retrying: 0,
  parked: 0,
  dead: 0,
  ...depth,
});

const percentiles = (p50: number, p95: number, p99: number): Percentiles => ({ p50, p95, p99 });

type Sketch = Pick<
  QueueHealth,
  "queue" | "oldestReadyMs" | "targetMs" | "breachInMs" | "drainMs" | "retryShare"
> & {
  depth: Partial<Depth>;
  arrived: number;
  ended: number;
  slots: [busy: number, total: number];
  workers: number;
  oldestDeadMs?: number;
  wait: Percentiles;
  run: Percentiles;
};

function queueOf(sketch: Sketch, seed: number): QueueHealth {
  const { arrived, ended, slots, depth, oldestDeadMs = null, ...rest } = sketch;
  const now = Date.now();
  return {
    targetFrom: { source: "default", setFor: null },
    paused: null,
    ...rest,
    depth: depthOf(depth),
    oldestDeadMs,
    rates: {
      arrived,
      claimed: ended,
      ended,
      succeeded: ended * 0.96,
      failed: ended * 0.04,
      retried: ended * 0.03,
      dead: 0,
    },
    slots: { busy: slots[0], total: slots[1], ahead: 0 },
    recent: Array.from({ length: 30 }, (_, index) => ({
      at: new Date(now - (30 - index) * minute),
      arrived: Math.round(arrived * 60 * (0.6 + 0.8 * wobble(seed + index))),
      ended: Math.round(ended * 60 * (0.7 + 0.5 * wobble(seed * 3 + index))),
      ready: 100,
    })),
  };
}

const sketches: readonly Sketch[] = [
  {
    queue: "notification",
    depth: { ready: 184_211, running: 16, retrying: 2_140, dead: 37, scheduled: 900 },
    oldestReadyMs: 22 * minute + 14_000,
    targetMs: 5 * minute,
    breachInMs: 0,
    arrived: 212,
    ended: 148,
    drainMs: 20 * minute + 44_000,
    retryShare: 0.271,
    oldestDeadMs: 5 * hour + 12 * minute,
    slots: [16, 16],
    workers: 2,
    wait: percentiles(800_000, 1_300_000, 1_340_000),
    run: percentiles(92, 340, 1_900),
  },
  {
    queue: "inference",
    depth: { ready: 412, running: 12, retrying: 8 },
    oldestReadyMs: 3 * minute + 41_000,
    targetMs: 5 * minute,
    breachInMs: 4 * minute + 10_000,
    arrived: 1.9,
    ended: 1.4,
    drainMs: 4 * minute + 54_000,
    retryShare: 0.031,
    slots: [12, 12],
    workers: 3,
    wait: percentiles(94_000, 190_000, 221_000),
    run: percentiles(6_400, 18_200, 41_000),
  },
  {
    queue: "webhook/partner-eu",
    depth: { ready: 3, dead: 2 },
    oldestReadyMs: 42_000,
    targetMs: 10 * minute,
    breachInMs: 9 * minute + 18_000,
    arrived: 0.05,
    ended: 0,
    drainMs: null,
    retryShare: null,
    oldestDeadMs: 3 * 24 * hour,
    slots: [0, 0],
    workers: 0,
    wait: percentiles(12, 80, 400),
    run: percentiles(210, 800, 2_400),
  },
  {
    queue: "embedding",
    depth: { ready: 18, running: 9, scheduled: 12_044, parked: 3 },
    oldestReadyMs: 640,
    targetMs: 5 * minute,
    breachInMs: null,
    arrived: 31,
    ended: 31.4,
    drainMs: 600,
    retryShare: 0.004,
    slots: [9, 20],
    workers: 2,
    wait: percentiles(9, 44, 120),
    run: percentiles(240, 610, 980),
  },
  {
    queue: "default",
    depth: { running: 1, scheduled: 3 },
    oldestReadyMs: null,
    targetMs: 5 * minute,
    breachInMs: null,
    arrived: 0.21,
    ended: 0.2,
    drainMs: 0,
    retryShare: 0,
    slots: [1, 10],
    workers: 2,
    wait: percentiles(4, 11, 19),
    run: percentiles(31, 90, 200),
  },
];

const queues = (): QueueHealth[] => sketches.map((sketch, index) => queueOf(sketch, index + 1));

export const health = (): Health => ({
  at: new Date(),
  queues: queues(),
  total: depthOf({ ready: 184_644, running: 38, retrying: 2_148, dead: 39, scheduled: 12_947, parked: 3 }),
  workers: 4,
  slow: 3,
  unserved: [{ kind: "deliver-webhook", queue: "webhook/partner-eu", oldestReadyMs: 42_000 }],
});

const steps: Record<SeriesRange, number> = {
  "1h": minute,
  "6h": minute,
  "24h": 5 * minute,
  "7d": 30 * minute,
  "30d": 2 * hour,
};
const spans: Record<SeriesRange, number> = {
  "1h": hour,
  "6h": 6 * hour,
  "24h": 24 * hour,
  "7d": 7 * 24 * hour,
  "30d": 30 * 24 * hour,
};

export function series({
  queue,
  kind,
  range = "1h",
}: {
  queue?: string;
  kind?: string;
  range?: SeriesRange;
}): Series {
  const stepMs = steps[range];
  const length = spans[range] / stepMs;
  const end = Math.floor(Date.now() / stepMs) * stepMs;
  return {
    queue: queue ?? null,
    kind: kind ?? null,
    range,
    stepMs,
    completeUntil: new Date(end),
    points: Array.from({ length }, (_, index) => {
      const swell = 1 + Math.sin(index / 9) * 0.4 + wobble(index) * 0.3;
      const arrived = Math.round((12_000 * swell * stepMs) / minute);
      const behind = Math.max(0, index - length * 0.55);
      const quiet = index > length * 0.2 && index < length * 0.23;
      const succeeded = quiet ? 0 : Math.round(arrived * (behind > 0 ? 0.78 : 0.97));
      return {
        at: new Date(end - (length - index) * stepMs),
        arrived,
        claimed: succeeded,
        succeeded,
        failed: Math.round(succeeded * 0.04 * wobble(index + 7)),
        retried: Math.round(succeeded * 0.035),
        dead: index % 23 === 0 ? 3 : 0,
        cancelled: 0,
        rescued: index % 31 === 0 ? 2 : 0,
        ready: quiet ? null : Math.round(90 + behind * 6_200),
        running: quiet ? null : 16,
        oldestReadyMs: quiet ? null : Math.round(2_000 * swell + behind * 50_000),
        wait: quiet
          ? { p50: null, p95: null, p99: null }
          : percentiles(900 * swell, 2_300 * swell, 5_100 * swell),
        run: quiet
          ? { p50: null, p95: null, p99: null }
          : percentiles(92 * swell, 340 * swell, 1_400 * swell),
      };
    }),
  };
}

const kind = (
  name: string,
  queue: string,
  depth: Partial<Depth>,
  run: Percentiles,
  workers: number,
  leaseAdvice: string | null = null,
): KindView => ({
  kind: name,
  queue,
  depth: depthOf(depth),
  rates: { arrived: 12, claimed: 11, ended: 11, succeeded: 10.6, failed: 0.4, retried: 0.4, dead: 0 },
  wait: percentiles(900, 2_300, 5_100),
  run,
  attemptsPerSuccess: 1.04,
  workers,
  leaseAdvice,
});

export const kinds = (): KindView[] => [
  kind(
    "send-receipt",
    "notification",
    { ready: 120_400, running: 11, dead: 31 },
    percentiles(88, 310, 1_400),
    2,
  ),
  kind(
    "send-digest",
    "notification",
    { ready: 63_811, running: 5, dead: 6 },
    percentiles(1_900, 24_000, 41_000),
    2,
    "99 of 100 attempts end within 41 s, and the lease is 30 s: it is renewed once for most slow ones. A lease of 90 s would spare the renewals.",
  ),
  kind("explain-response", "inference", { ready: 412, running: 12 }, percentiles(6_400, 18_200, 41_000), 3),
  kind("deliver-webhook", "webhook/partner-eu", { ready: 3, dead: 2 }, percentiles(210, 800, 2_400), 0),
  kind("embed-chapter", "embedding", { ready: 18, running: 9 }, percentiles(240, 610, 980), 2),
];

const worker = (id: string, given: Partial<WorkerView>): WorkerView => ({
  id,
  host: "worker-7f9c6d-x2x9k",
  pid: 1,
  version: "2026.11.3",
  pools: { notification: 8, default: 5 },
  kinds: ["send-receipt", "send-digest", "close-day", "rebuild-index", "prune-drafts"],
  startedAt: new Date(Date.now() - 5 * hour - 11 * minute),
  seenAt: new Date(),
  listening: true,
  draining: false,
  asleep: false,
  busy: 9,
  slots: 13,
  waiting: 0,
  lagMs: 2,
  rssBytes: 184 * 1_048_576,
  heartbeatAgeMs: 900,
  unresponsive: false,
  behind: false,
  ...given,
});

export const workers = (): WorkerView[] => [
  worker("notification-1", { busy: 13, waiting: 4, lagMs: 312, rssBytes: 1_310 * 1_048_576 }),
  worker("notification-2", {
    host: "worker-7f9c6d-m4k2p",
    busy: 8,
    draining: true,
    version: "2026.11.2",
    behind: true,
  }),
  worker("inference-1", {
    host: "gpu-1",
    pid: 4_711,
    pools: { inference: 12, embedding: 20 },
    kinds: ["explain-response", "embed-chapter"],
    busy: 21,
    slots: 32,
    listening: false,
  }),
  worker("inference-2", {
    host: "gpu-2",
    pid: 611,
    pools: { inference: 12 },
    kinds: ["explain-response"],
    busy: 0,
    slots: 12,
    heartbeatAgeMs: 92_000,
    unresponsive: true,
    seenAt: new Date(Date.now() - 92_000),
    lagMs: null,
    rssBytes: null,
  }),
];

export const slowId = "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a11";

export const slow = (): SlowJob[] => [
  {
    id: slowId,
    kind: "explain-response",
    queue: "inference",
    worker: "inference-1",
    attempt: 2,
    runningMs: 6 * minute + 12_000,
    p95Ms: 18_200,
    because: "beyond-normal",
    text: "It has been running for 6 min 12 s; p95 for this kind is 18.2 s.",
  },
  {
    id: "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a12",
    kind: "send-digest",
    queue: "notification",
    worker: "notification-1",
    attempt: 1,
    runningMs: 26_000,
    p95Ms: 24_000,
    because: "near-lease",
    text: "It has used 26 s of its lease of 30 s and has not renewed it.",
  },
  {
    id: "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a13",
    kind: "rebuild-index",
    queue: "default",
    worker: "notification-1",
    attempt: 1,
    runningMs: 8 * minute + 40_000,
    p95Ms: null,
    because: "near-timeout",
    text: "It has used 87 % of its timeout of 10 min.",
  },
];

export function jobRows(): JobRow[] {
  const states = [
    "ready",
    "running",
    "retrying",
    "scheduled",
    "succeeded",
    "dead",
    "cancelled",
    "parked",
  ] as const;
  return Array.from({ length: 24 }, (_, index) => {
    const state = states[index % states.length] ?? "ready";
    const ended = state === "succeeded" || state === "dead" || state === "cancelled";
    return {
      id: `019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0b${String(index).padStart(2, "0")}`,
      kind: index % 3 === 0 ? "send-receipt" : "send-digest",
      queue: "notification",
      state,
      priority: 0,
      runAt: new Date(Date.now() - index * 7_000),
      createdAt: new Date(Date.now() - index * 9_000),
      finishedAt: ended ? new Date(Date.now() - index * 3_000) : null,
      attempts: index % 4,
      maxAttempts: 5,
      crashes: 0,
      run: 1,
      worker: state === "running" ? "notification-1" : null,
      claimedAt: state === "running" ? new Date(Date.now() - 4_000) : null,
      key: `receipt:p_${index}`,
      tenant: index % 2 === 0 ? "school-12" : null,
      tags: index % 5 === 0 ? ["night"] : [],
      parkReason: state === "parked" ? "review" : null,
      reason: state === "dead" ? "attempts spent" : null,
      error:
        state === "dead" || state === "retrying"
          ? { name: "MailRefused", message: "421 4.7.0 Try again later, closing connection" }
          : null,
    };
  });
}

/** Results of the methods of `fakeStint`. */
export const busyNight: Partial<Record<keyof Inspector, unknown>> = {
  health,
  series,
  kinds,
  workers,
  slow,
  jobs: () => ({ jobs: jobRows(), next: null, partial: false }),
  count: () => ({ count: 10_000, capped: true }),
  stats,
  waitingTenants,
  deadGroups,
  controls,
  capacity,
  stops,
  schedules,
  scheduleCounts: { active: 2, paused: 1, ended: 0, broken: 1 },
};
