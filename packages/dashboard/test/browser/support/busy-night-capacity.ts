/** The busy night: recommended workers by pool, and workers that have stopped. */
import type { Capacity, PoolCapacity, WorkerStop } from "stint/inspect";

const minute = 60_000;

const pool = (own: Partial<PoolCapacity> & { pool: string }): PoolCapacity => ({
  queues: [own.pool],
  slots: 8,
  workers: 2,
  ready: 0,
  running: 0,
  waiting: 0,
  oldestReadyMs: null,
  targetMs: 5 * minute,
  arrivedPerS: 0,
  ranPerS: 0,
  utilisation: 0,
  drainMs: 0,
  needed: 0,
  recommended: 0,
  limitedBy: { factor: "none", name: null, text: "The workers keep up" },
  ...own,
});

export const capacity = (): Capacity => ({
  at: new Date(),
  workers: 7,
  recommended: 5,
  pools: [
    pool({
      pool: "notification",
      ready: 184_211,
      running: 16,
      oldestReadyMs: 22 * minute + 14_000,
      arrivedPerS: 212,
      ranPerS: 148,
      utilisation: 1,
      drainMs: null,
      needed: 5,
      recommended: 5,
      limitedBy: { factor: "workers", name: null, text: "2 of 5 needed workers run" },
    }),
    pool({
      pool: "inference",
      workers: 3,
      slots: 4,
      ready: 12,
      running: 12,
      waiting: 412,
      oldestReadyMs: 3 * minute + 41_000,
      arrivedPerS: 1.9,
      ranPerS: 1.4,
      utilisation: 1,
      drainMs: 4 * minute + 54_000,
      needed: 3,
      recommended: 3,
      limitedBy: {
        factor: "dependency",
        name: "dependency:openai",
        text: "Dependency openai is saturated; 412 jobs wait for it: more workers will not help",
      },
    }),
    pool({
      pool: "embedding",
      ready: 3,
      running: 6,
      oldestReadyMs: 400,
      arrivedPerS: 18,
      ranPerS: 18,
      utilisation: 0.375,
      drainMs: 150,
      needed: 1,
      recommended: 2,
    }),
    pool({
      pool: "webhook/partner-eu",
      slots: null,
      workers: 0,
      ready: 3,
      oldestReadyMs: 42_000,
      targetMs: 10 * minute,
      arrivedPerS: 0.05,
      utilisation: null,
      drainMs: null,
      needed: 1,
      recommended: 1,
      limitedBy: { factor: "workers", name: null, text: "No worker serves this pool" },
    }),
  ],
  database: { connections: 34, maxConnections: 97, lockWaits: 0 },
});

const stop = (own: Pick<WorkerStop, "worker" | "drained" | "released" | "ms">): WorkerStop => ({
  ...own,
  host: "worker-host-1.internal",
  version: "2026.11.2",
  startedAt: new Date(Date.now() - 300 * minute),
  stoppedAt: new Date(Date.now() - 18 * minute),
});

export const stops = (): WorkerStop[] => [
  stop({ worker: "notification-1", drained: 6, released: 0, ms: 1_840 }),
  stop({ worker: "inference-2", drained: 2, released: 2, ms: 30_000 }),
];
